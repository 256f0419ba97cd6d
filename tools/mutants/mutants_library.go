package main

// What the following mutants break, in words. No RFC has these rules: they are what the
// library promises beside them, so a mutant names its tests itself.
const (
	faults = "A fault in memory that is not there is the connection's error: the process goes on, and " +
		"so does whatever is not of that connection"
	spinning = "Spinning is for connections whose peers answer quickly, and what it costs in vain is " +
		"bounded"
	heldBounds = "What a device holds for its peers is bounded, and given back"
	nudges     = "An initiator that waits for a first answer sends one empty RDMA Write, once, and only " +
		"then"
	credits = "A stream's data stays within the memory and the messages that its receiver has granted"
	rights  = "A change of rights or of the key holds for every access that begins after it"
)

// libraryMutants are of what the library promises beyond the RFCs.
var libraryMutants = []mutant{
	// Faults in memory: internal/fault, and who guards what.
	{
		name: "placing-not-guarded", breaks: faults, in: "ddp.Receiver.Guard",
		old:   "defer r.unguard(fault.Guard(), &gone)",
		new:   "defer r.unguard(false, &gone)",
		tests: []string{"ddp TestGuard"},
	},
	{
		name: "placing-fault-is-the-peers", breaks: faults, in: "ddp.memoryGone",
		old:   "protocol.DDPLocalCatastrophic",
		new:   "protocol.DDPTaggedInvalidSTag",
		tests: []string{"ddp TestGuard", ". TestTargetIsGone"},
	},
	{
		name: "atomic-not-guarded", breaks: faults, in: "ddp.Region.atomic",
		old:   "defer r.unguard(fault.Guard(), &err)",
		new:   "defer r.unguard(fault.Guard() && false, &err); fault.Unguard(false)",
		tests: []string{"ddp TestAtomicOnMissingMemory"},
	},
	{
		name: "guard-does-not-end", breaks: faults, in: "internal/fault.Unguard",
		old:   "debug.SetPanicOnFault(was)",
		new:   "_ = was",
		tests: []string{"internal/fault TestGuardEnds"},
	},
	{
		name: "every-panic-is-a-fault", breaks: faults, in: "internal/fault.Of",
		old:   "panic(r)",
		new:   "return &Error{}",
		tests: []string{"internal/fault TestOfOtherPanics", "ddp TestGuardOfOthers", "mpa TestReceiveAfterPanic"},
	},
	{
		name: "copy-not-guarded", breaks: faults, in: "internal/fault.Copy",
		old:   "was, done := Guard(), false",
		new:   "was, done := false, false",
		tests: []string{"internal/fault TestFaults"},
	},
	{
		name: "last-octet-not-looked-at", breaks: faults, in: "internal/fault.touch",
		old:   "sum |= p[len(p)-1]",
		new:   "",
		tests: []string{"internal/fault TestFind"},
	},
	{
		name: "one-octet-beyond-is-within", breaks: faults, in: "internal/fault.Error.Within",
		old:   "< uintptr(len(p))",
		new:   "<= uintptr(len(p))",
		tests: []string{"internal/fault TestFaults", "internal/fault TestFind"},
	},
	{
		name: "source-gone-without-a-terminate", breaks: faults, in: "rdmap.Stream.unguard",
		old:   "s.blameSource(t.queued, gone, true)",
		new:   "s.blameSource(t.queued, gone, false)",
		tests: []string{". TestSourceIsGone", ". TestCallersMemoryIsGone"},
	},
	{
		name: "response-source-gone-without-a-terminate", breaks: faults, in: "rdmap.Stream.unguard",
		old:   "uint64(r.Size)-(t.at-r.SrcTO)), true)",
		new:   "uint64(r.Size)-(t.at-r.SrcTO)), false)",
		tests: []string{". TestTargetIsGone"},
	},
	{
		name: "no-request-blamed-for-its-source", breaks: faults, in: "rdmap.Stream.blameSource",
		old:   "s.culprit = index",
		new:   "",
		tests: []string{". TestSourceIsGone", ". TestCallersMemoryIsGone"},
	},

	// Spinning: spin.go, spinner.go, poller.go.
	{
		name: "spin-never-shrinks", breaks: spinning, in: "iwarp.spinPolicy.spun",
		old:   "p.window /= 2",
		new:   "p.window /= 1",
		tests: []string{". TestSpinPolicy"},
	},
	{
		name: "bulk-keeps-spinning", breaks: spinning, in: "iwarp.spinPolicy.spun",
		old:   "case octets >= bulkRead: p.window = 0",
		new:   "case octets >= bulkRead: p.window = maxSpin",
		tests: []string{". TestSpinPolicy"},
	},
	{
		name: "late-find-counts-as-found", breaks: spinning, in: "iwarp.spinPolicy.spun",
		old:   "octets > 0 && wait <= maxSpin",
		new:   "octets > 0",
		tests: []string{". TestSpinPolicy"},
	},
	{
		name: "no-doubt-after-spins-in-vain", breaks: spinning, in: "iwarp.spinPolicy.spun",
		old:   "min(p.doubt+1, maxDoubt)",
		new:   "p.doubt",
		tests: []string{". TestSpinPolicy"},
	},
	{
		name: "doubt-without-end", breaks: spinning, in: "iwarp.spinPolicy.spun",
		old:   "p.doubt--",
		new:   "p.doubt -= 0",
		tests: []string{". TestSpinDoubt"},
	},
	{
		name: "doubt-without-bound", breaks: spinning, in: "iwarp.spinPolicy.spun",
		old:   "min(p.doubt+1, maxDoubt)",
		new:   "p.doubt+1",
		tests: []string{". TestSpinDoubt"},
	},
	{
		name: "one-short-wait-is-enough", breaks: spinning, in: "iwarp.spinPolicy.parked",
		old:   "p.shorts > 1<<p.doubt",
		new:   "p.shorts > 0",
		tests: []string{". TestSpinPolicy"},
	},
	{
		name: "bulk-begins-a-spin", breaks: spinning, in: "iwarp.spinPolicy.parked",
		old:   "octets >= bulkRead || wait > shortWait",
		new:   "wait > shortWait",
		tests: []string{". TestSpinPolicy"},
	},
	{
		name: "long-waits-begin-a-spin", breaks: spinning, in: "iwarp.spinPolicy.parked",
		old:   "octets >= bulkRead || wait > shortWait",
		new:   "octets >= bulkRead",
		tests: []string{". TestSpinPolicy"},
	},
	{
		name: "short-waits-need-not-be-in-a-row", breaks: spinning, in: "iwarp.spinPolicy.parked",
		old:   "p.shorts = 0; return",
		new:   "return",
		tests: []string{". TestSpinPolicy"},
	},
	{
		name: "all-processors-spin", breaks: spinning, in: "iwarp.spinBudget.limit",
		old:   "max(b.procs.Load()/2, 1)",
		new:   "max(b.procs.Load(), 1)",
		tests: []string{". TestSpinnersAreBounded"},
	},
	{
		name: "one-processor-may-not-spin", breaks: spinning, in: "iwarp.spinBudget.limit",
		old:   "max(b.procs.Load()/2, 1)",
		new:   "b.procs.Load()/2",
		tests: []string{". TestSpinnersAreBounded"},
	},
	{
		name: "spins-in-vain-cost-nothing", breaks: spinning, in: "iwarp.spinBudget.end",
		old:   "max(b.credit-vain, -maxDebt)",
		new:   "max(b.credit, -maxDebt)",
		tests: []string{". TestSpinInVainIsBounded", ". TestSpinStolen"},
	},
	{
		name: "debt-without-bound", breaks: spinning, in: "iwarp.spinBudget.end",
		old:   "max(b.credit-vain, -maxDebt)",
		new:   "b.credit-vain",
		tests: []string{". TestSpinStolen"},
	},
	{
		name: "credit-not-asked", breaks: spinning, in: "iwarp.spinBudget.begin",
		old:   "case b.spinning.Load() >= b.limit(), b.credit <= 0:",
		new:   "case b.spinning.Load() >= b.limit():",
		tests: []string{". TestSpinInVainIsBounded"},
	},
	{
		name: "processors-counted-once", breaks: spinning, in: "iwarp.spinBudget.begin",
		old:   "now-b.looked > lookEvery",
		new:   "now < b.looked",
		tests: []string{". TestSpinnersAreBounded"},
	},
	{
		name: "spinner-keeps-its-place", breaks: spinning, in: "iwarp.spinner.end",
		old:   "spins.end(s.vain + vain)",
		new:   "spins.mu.Lock(); spins.mu.Unlock()",
		tests: []string{". TestSpinner"},
	},
	{
		name: "callers-stay-counted", breaks: spinning, in: "iwarp.spinner.end",
		old:   "s.count(-1)",
		new:   "",
		tests: []string{". TestSpinner"},
	},
	{
		name: "spin-in-vain-not-told", breaks: spinning, in: "iwarp.spinner.end",
		old:   "c.poller.spun(vain, 0)",
		new:   "_ = c",
		tests: []string{". TestSpinner"},
	},
	{
		name: "spin-without-a-window", breaks: spinning, in: "iwarp.spinner.start",
		old:   "s.hot == 0 || len(conns) > maxSpun",
		new:   "len(conns) > maxSpun",
		tests: []string{". TestSpinner", ". TestAdaptiveIdle"},
	},
	{
		name: "spin-without-end", breaks: spinning, in: "iwarp.spinner.next",
		old:   "s.now-s.began >= s.window",
		new:   "s.now < s.began",
		tests: []string{". TestSpinner"},
	},
	{
		name: "polling-never-looks-at-the-context", breaks: spinning, in: "iwarp.spinner.next",
		old:   "return s.turns < spinLook",
		new:   "return true",
		tests: []string{". TestPolling", ". TestPollingVerbs"},
	},
	{
		name: "parked-has-a-poller", breaks: spinning, in: "iwarp.newPoller",
		old:   "|| c.cfg.Progress == ProgressParked",
		new:   "",
		tests: []string{". TestNoPoller"},
	},

	// What is held: held.go, rdmap/respond.go.
	{
		name: "held-without-bound", breaks: heldBounds, in: "iwarp.heldBound.Take",
		old:   "n > b.max-used",
		new:   "n > b.max",
		tests: []string{". TestMaxHeld"},
	},
	{
		name: "held-refusals-not-counted", breaks: heldBounds, in: "iwarp.heldBound.Take",
		old:   "b.refused.Add(1)",
		new:   "",
		tests: []string{". TestMaxHeld"},
	},
	{
		name: "held-not-given-back", breaks: heldBounds, in: "iwarp.held.sub",
		old:   "h.bound.Give(spare)",
		new:   "",
		tests: []string{". TestMaxHeld", ". TestHeldIsGivenBack"},
	},
	{
		name: "held-at-the-end-not-given-back", breaks: heldBounds, in: "iwarp.held.end",
		old:   "h.share.end()",
		new:   "",
		tests: []string{". TestHeldIsGivenBack"},
	},
	{
		name: "held-of-the-forgotten", breaks: heldBounds, in: "iwarp.held.add",
		old:   "runtime.AddCleanup(b, (*heldShare).end, h.share)",
		new:   "runtime.KeepAlive(b)",
		tests: []string{". TestHeldIsGivenBack"},
	},
	{
		name: "modest-connections-refused", breaks: heldBounds, in: "iwarp.held.add",
		old:   "octets - freeHeld; beyond",
		new:   "octets; beyond",
		tests: []string{". TestMaxHeld"},
	},
	{
		name: "held-taken-without-asking", breaks: heldBounds, in: "iwarp.held.add",
		old:   "if !h.bound.Take(more)",
		new:   "if h.bound.used.Add(more) < 0",
		tests: []string{". TestMaxHeld"},
	},

	// The empty Write of an initiator that waits: nudge.go, rdmap/nudge.go.
	{
		name: "nudged-after-an-answer", breaks: nudges, in: "iwarp.nudger.due",
		old:   "answered, !due && st.FPDUsReceived > 0:",
		new:   "answered && n.c == nil:",
		tests: []string{". TestNoNudge"},
	},

	// Rights and keys: ddp/region.go, mr.go.
	{
		name: "set-access-only-adds", breaks: rights, in: "ddp.Region.SetAccess",
		old:   "r.access = a & allAccess",
		new:   "r.access |= a & allAccess",
		tests: []string{"ddp TestSetAndRevoke", ". TestRegionChanges"},
	},
	{
		name: "set-access-does-not-wait", breaks: rights, in: "ddp.Region.SetAccess",
		old:   "r.guard.lock(); r.access = a & allAccess; r.guard.unlock()",
		new:   "r.access = a & allAccess",
		tests: []string{"ddp TestRevocationIsABarrier", "ddp TestRevocationWaits"},
	},
	{
		name: "set-access-not-authorized", breaks: rights, in: "iwarp.MR.SetAccess",
		old:   "m.pd.mayGrant(m.buf, access); err != nil",
		new:   "m.pd.mayGrant(m.buf, access); err != nil && access == 0",
		tests: []string{". TestRegionChanges", ". TestAuthorize"},
	},
	{
		name: "rekey-leaves-the-old-key", breaks: rights, in: "ddp.Region.rekey",
		old:   "r.stag.Store(s)",
		new:   "_ = s",
		tests: []string{"ddp TestSetAndRevoke", ". TestRegionChanges"},
	},
	{
		name: "rekey-leaves-it-invalid", breaks: rights, in: "ddp.Region.rekey",
		old:   "r.valid = true",
		new:   "",
		tests: []string{"ddp TestSetAndRevoke", ". TestRegionChanges"},
	},
	{
		name: "rekey-of-what-is-gone", breaks: rights, in: "ddp.Region.rekey",
		old:   "if r.gone { return 0 }",
		new:   "",
		tests: []string{"ddp TestRekeyOfWhatIsGone"},
	},
	{
		name: "rekey-does-not-wait", breaks: rights, in: "ddp.Region.rekey",
		old:   "r.guard.lock(); defer r.guard.unlock()",
		new:   "",
		tests: []string{"ddp TestRevocationIsABarrier", "ddp TestRevocationWaits"},
	},

	// Streams: credits and memory, docs/stream.md.
	{
		name: "sends-without-credit", breaks: credits, in: "stream.outbound.room",
		old:   "out.count > 0 && out.limit-out.seq > out.reserve",
		new:   "out.count > 0",
		tests: streamTests,
	},
	{
		name: "writes-beyond-the-grant", breaks: credits, in: "stream.Conn.send",
		old:   "int(min(out.grants[0].length, uint32(limit)))",
		new:   "limit",
		tests: streamTests,
	},
	{
		name: "data-beyond-the-grant-taken", breaks: credits, in: "stream.inbound.data",
		old:   "int64(n) > int64(in.promised)",
		new:   "int64(n) > 1<<40",
		tests: streamTests,
	},
	{
		name: "data-beyond-credits-taken", breaks: credits, in: "stream.inbound.data",
		old:   "if in.seq == in.limit {",
		new:   "if false {",
		tests: streamTests,
	},
	{
		name: "data-after-shutdown-taken", breaks: credits, in: "stream.inbound.data",
		old:   "if in.shutdown {",
		new:   "if in.shutdown && in.gone {",
		tests: streamTests,
	},
	{
		name: "grant-may-go-back", breaks: credits, in: "stream.outbound.granted",
		old:   "|| limit-out.seq < out.limit-out.seq",
		new:   "",
		tests: streamTests,
	},
	{
		name: "grant-of-any-number", breaks: credits, in: "stream.outbound.granted",
		old:   "limit-out.seq > credits ||",
		new:   "",
		tests: streamTests,
	},
	{
		name: "grant-that-is-not-there", breaks: credits, in: "stream.outbound.granted",
		old:   "if flags != 0 { return fmt.Errorf(",
		new:   "if flags == 1 { return fmt.Errorf(",
		tests: streamTests,
	},
	{
		name: "granted-memory-not-checked", breaks: credits, in: "stream.outbound.granted",
		old:   "if err := s.check(); err != nil {",
		new:   "if err := s.check(); err != nil && s.length == 0 {",
		tests: streamTests,
	},
	{
		name: "credits-not-renewed", breaks: credits, in: "stream.inbound.due",
		old:   "|| int(in.limit-in.seq) <= credits/2",
		new:   "",
		tests: streamTests,
	},
	{
		name: "memory-not-renewed", breaks: credits, in: "stream.inbound.due",
		old:   "in.freed >= in.part ||",
		new:   "",
		tests: streamTests,
	},
	{
		name: "grant-not-counted", breaks: credits, in: "stream.inbound.grant",
		old:   "in.promised += n",
		new:   "",
		tests: streamTests,
	},
	{
		name: "same-part-granted-again", breaks: credits, in: "stream.inbound.grant",
		old:   "in.next = (in.next + n) % ring",
		new:   "in.next = 0",
		tests: streamTests,
	},
	{
		name: "unread-memory-granted", breaks: credits, in: "stream.inbound.consume",
		old:   "in.freed += n",
		new:   "in.freed += in.part",
		tests: streamTests,
	},
	{
		name: "grant-used-twice", breaks: credits, in: "stream.outbound.use",
		old:   "out.grants[0].addr += uint64(n)",
		new:   "",
		tests: streamTests,
	},
}

// streamTests are those of package stream that credits matter to.
var streamTests = []string{
	"stream TestTransfer",
	"stream TestConnContract",
	"stream TestHostileMessages",
	"stream TestBeyondCredits",
	"stream TestHostileStartup",
	"stream TestMessages",
	"stream TestGolden",
	"stream TestUnmarkedGrants",
}
