package kit

import (
	"fmt"
	"regexp"
	"strings"
)

// Role is the part that the kit plays.
type Role uint8

// The roles. A set of them is their sum.
const (
	// Initiator: the kit connects and sends the Request.
	Initiator Role = 1 << iota
	// Responder: the kit is connected to and sends the Reply.
	Responder
	// Either is for a [Case] that both roles can run.
	Either = Initiator | Responder
)

// String returns the role's name.
func (r Role) String() string {
	switch r {
	case Initiator:
		return "initiator"
	case Responder:
		return "responder"
	case Either:
		return "either"
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// ULP says what program uses the endpoint under test.
type ULP uint8

// The programs that the kit knows.
const (
	// Raw: nothing is known of it. Cases keep to what the layers below it must do.
	Raw ULP = iota
	// Rping: rping of librdmacm, or "iwarp ping". It reads the kit's memory and
	// writes to it, in answer to an advert.
	Rping
	// Target: the protocol of docs/conform.md.
	Target
)

// String returns the name that [ParseULP] takes.
func (u ULP) String() string { return [...]string{"raw", "rping", "target"}[u] }

// ParseULP is the reverse of String.
func ParseULP(s string) (ULP, error) {
	for _, u := range [...]ULP{Raw, Rping, Target} {
		if u.String() == s {
			return u, nil
		}
	}
	return Raw, fmt.Errorf("conform: %q: raw, rping or target", s)
}

// Level says how a case treats the endpoint.
type Level uint8

// The levels.
const (
	// Good: the kit keeps all rules.
	Good Level = iota
	// Hostile: the kit breaks a rule. Afterwards a good connection must work.
	Hostile
	// Crasher is Hostile, or good, with what is known to have crashed an endpoint, a
	// kernel perhaps. See [Options].Gentle.
	Crasher
)

// String returns the level's name.
func (l Level) String() string { return [...]string{"good", "hostile", "crasher"}[l] }

// Case is one thing to try. The cases of the kit are given by [Cases].
type Case struct {
	// ID is "family/name", or more parts. It stays the same from release to release.
	ID string
	// Rules are requirement ids (docs/requirements.tsv) and numbers of public
	// reports (docs/conform.md): at least one.
	Rules []string
	// Roles are those of the kit in which the case makes sense.
	Roles Role
	// Needs is the least that the program above the endpoint must be: Raw for any.
	Needs ULP
	Level Level
	// Rule says what must hold, Sends what the kit does, and Legal what a
	// conforming endpoint may do then, each with its RFC section.
	Rule, Sends string
	Legal       []Answer

	run func(s *session)
}

// String returns the line of a list: id, roles, ULP, level and rules.
func (c *Case) String() string {
	return fmt.Sprintf("%s\t%v\t%v\t%v\t%s\t%s", c.ID, c.Roles, c.Needs, c.Level, strings.Join(c.Rules, ","), c.Rule)
}

// Cases returns all cases, family by family. The caller may keep them, and must not
// change what they point to.
func Cases() []*Case {
	var all []*Case
	for _, family := range [...]func() []*Case{
		startupCases, replyCases, splitCases, stageCases, optionCases, depthCases, privateCases, rtrCases,
		rtrReplyCases,
		lengthCases, paddingCases, crcCases, markerCases,
		versionCases, opcodeCases, queueCases, orderCases, sendCases,
		accessCases, invalidateCases, readCases, atomicCases, responseCases, terminateCases, teardownCases, senderCases,
	} {
		all = append(all, family()...)
	}
	return all
}

// Select returns the cases that can be chosen for opts: of the role, matched by Run
// and not by Skip, without crashers if Gentle. The error says which pattern is no
// regular expression.
func Select(opts *Options) ([]*Case, error) {
	o := opts.orDefault()
	run, err := pattern("--run", o.Run)
	if err != nil {
		return nil, err
	}
	skip, err := pattern("--skip", o.Skip)
	if err != nil {
		return nil, err
	}
	var chosen []*Case
	for _, c := range Cases() {
		switch {
		case c.Roles&o.Role == 0:
		case o.Gentle && c.Level == Crasher:
		case run != nil && !matches(run, c):
		case skip != nil && matches(skip, c):
		default:
			chosen = append(chosen, c)
		}
	}
	return chosen, nil
}

func pattern(what, s string) (*regexp.Regexp, error) {
	if s == "" {
		return nil, nil
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, fmt.Errorf("%s %q: no regular expression: %w", what, s, err)
	}
	return re, nil
}

func matches(re *regexp.Regexp, c *Case) bool {
	if re.MatchString(c.ID) {
		return true
	}
	for _, r := range c.Rules {
		if re.MatchString(r) {
			return true
		}
	}
	return false
}

// rules splits a list of ids.
func rules(s string) []string { return strings.Fields(s) }
