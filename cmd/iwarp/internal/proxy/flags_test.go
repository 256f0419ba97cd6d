package proxy

import (
	"strings"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
	"github.com/go-iwarp/iwarp/iwarptest"
)

func TestFaultSpec(t *testing.T) {
	for text, want := range map[string]faultSpec{
		"delay:5ms":             {kind: "delay", delay: 5 * time.Millisecond},
		"delay:2s,responder":    {kind: "delay", delay: 2 * time.Second, who: responder},
		"throttle:1M":           {kind: "throttle", rate: 1 << 20},
		"throttle:10,initiator": {kind: "throttle", rate: 10, who: initiator},
		"cut:octet=100,initiator": {kind: "cut", who: initiator, fault: iwarptest.RelayFault{
			Kind: "cut", Unit: "octet", At: 100,
		}},
		"drop:fpdu=0x11,responder": {kind: "drop", who: responder, fault: iwarptest.RelayFault{
			Kind: "drop", Unit: "fpdu", At: 17, Back: true,
		}},
		"corrupt:fpdu=17,responder": {kind: "corrupt", who: responder, fault: iwarptest.RelayFault{
			Kind: "corrupt", Unit: "fpdu", At: 17, Octet: lastOctet, Mask: 1, Back: true,
		}},
		"corrupt:responder,fpdu=1,octet=0,mask=0x80,fix": {kind: "corrupt", who: responder, fault: iwarptest.RelayFault{
			Kind: "corrupt", Unit: "fpdu", At: 1, Mask: 0x80, Fix: true, Back: true,
		}},
		"split:write=2,count=-1,size=7,initiator": {kind: "split", who: initiator, fault: iwarptest.RelayFault{
			Kind: "split", Unit: "write", At: 2, Count: -1, Size: 7,
		}},
		"hold:fpdu=1,for=1s,responder": {kind: "hold", who: responder, fault: iwarptest.RelayFault{
			Kind: "hold", Unit: "fpdu", At: 1, For: time.Second, Back: true,
		}},
	} {
		var got faultSpec
		if err := got.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if want.text = text; got != want || got.String() != text {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// A wrong command line is refused with the flag, the value and the rule.
func TestUsage(t *testing.T) {
	fault := func(spec string) []string { return []string{"--listen", ":0", "--to", "h:1", "--fault", spec} }
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen", ":1"}, "--to: where the connections go on is missing"},
		{[]string{"--to", "h:1"}, "missing flags: --listen=ADDR"},
		{[]string{"--listen", "x", "--to", "h:1"}, `--listen: "x": HOST:PORT`},
		{[]string{"--listen", ":99999", "--to", "h:1"}, `":99999": the port is a number from 0 to 65535`},
		{[]string{"--listen", "udp://:1", "--to", "h:1"}, `udp:// is not known: tcp://, iwarp://, or neither`},
		{[]string{"--listen", "tcp://:1", "--to", "tcp://h:1"}, "there is no iWARP between them"},
		{
			[]string{"--listen", "tcp://:1", "--to", "h:1"},
			"--listen tcp://:1 and --to h:1: both with tcp:// or iwarp://",
		},
		{[]string{"--listen", ":1", "--to", ":1"}, "--to :1: the host is missing"},
		{[]string{"--listen", ":1", "--to", "h:0"}, "--to h:0: the port is a number from 1 to 65535"},
		{[]string{"--listen", ":1", "--to", "h:1", "--max-connections", "0"}, "--max-connections 0: 1 or more"},
		{[]string{"--listen", ":1", "--to", "h:1", "--grace", "0s"}, `--grace: "0s": a duration above 0`},
		{
			[]string{"--listen", "tcp://:1", "--to", "iwarp://h:1", "--fault", "delay:1s"},
			"--fault delay:1s: faults are a relay's",
		},
		{fault("corrupt"), `--fault: "corrupt": KIND:WHERE,WHO, such as`},
		{fault("burn:fpdu=1,responder"), `"burn" is no kind of fault: corrupt, drop,`},
		{fault("corrupt:fpdu=1"), `"corrupt:fpdu=1": say whose octets it happens to: initiator or responder`},
		{fault("corrupt:responder"), `say where: fpdu=N, write=N or octet=N`},
		{fault("corrupt:fpdu=1,back"), `back: say whose octets`},
		{fault("corrupt:fpdu=1,responder,initiator"), `initiator or responder, once`},
		{fault("corrupt:fpdu=x,responder"), `fpdu: "x": a whole number from 0 on`},
		{fault("corrupt:fpdu=-1,responder"), `fpdu: "-1": a whole number from 0 on`},
		{fault("corrupt:fpdu=1,mask=0,responder"), `mask: "0": a number from 1 to 255`},
		{fault("corrupt:fpdu=1,fix,responder"), `fix: which octet it hides must be said: octet=N`},
		{fault("corrupt:write=1,fix,responder"), `fix: only an FPDU that is corrupted`},
		{fault("corrupt:fpdu=1,for=1s,responder"), `for 1s: only a hold lasts`},
		{fault("corrupt:fpdu=1,size=2,responder"), `size 2: only a split has one`},
		{fault("corrupt:fpdu=1,write=2,responder"), `write=2: counted is fpdu`},
		{fault("corrupt:fpdu=1,often,responder"), `"often": octet, write, fpdu, count`},
		{fault("drop:fpdu=1,octet=2,responder"), `octet 2: only an FPDU or a write that is corrupted`},
		{fault("drop:fpdu=1,mask=2,responder"), `mask 0x2: only a corruption has one`},
		{fault("drop:fpdu=1,count=many,responder"), `count: "many": a whole number`},
		{fault("cut:fpdu=1,count=2,responder"), `count 2: a cut happens once`},
		{fault("reorder:octet=1,responder"), `reorder of octets: it is of FPDUs or writes`},
		{fault("hold:fpdu=1,for=long,responder"), `for: "long": a duration, such as 500ms`},
		{fault("hold:fpdu=1,for=-1s,responder"), `none of them below 0`},
		{fault("delay:x"), `"delay:x": "x": a duration above 0`},
		{fault("delay:1s,2s"), `delay has one value`},
		{fault("throttle:0"), `octets a second: "0": octets from 1`},
		{append(fault("delay:1s"), "--fault", "delay:2s,responder"), "there is a delay for that direction already"},
		{append(fault("cut:fpdu=1,responder"), "--fault", "cut:fpdu=1,responder"), "the same is there already"},
	} {
		out := cmdtest.NewLines()
		code := run(cmdtest.Context(t), append([]string{"proxy"}, c.args...), out, out)
		if code != ui.ExitUsage || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q: exit code %d, want %d and %q:\n%s", c.args, code, ui.ExitUsage, c.want, out)
		}
	}
}
