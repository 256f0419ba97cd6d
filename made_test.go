package iwarp_test

import (
	"context"
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp"
)

// call calls a method with zero arguments, but a context, and returns what it panics with.
func call(t *testing.T, recv reflect.Value, m reflect.Method) (out []reflect.Value, panicked any) {
	args := []reflect.Value{recv}
	for j := 1; j < m.Type.NumIn(); j++ {
		switch in := m.Type.In(j); {
		case in == reflect.TypeFor[context.Context]():
			args = append(args, reflect.ValueOf(t.Context()))
		case m.Type.IsVariadic() && j == m.Type.NumIn()-1:
			args = append(args, reflect.Zero(in.Elem()))
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	defer func() { panicked = recover() }()
	return m.Func.Call(args), nil
}

// What no constructor has made returns an error from each method that has one.
func TestNotMade(t *testing.T) {
	for _, handle := range []any{
		(*iwarp.CQ)(nil), (*iwarp.Conn)(nil), (*iwarp.ConnRequest)(nil), (*iwarp.Device)(nil), (*iwarp.Listener)(nil),
		(*iwarp.MR)(nil),
		(*iwarp.MW)(nil), (*iwarp.PD)(nil), (*iwarp.QP)(nil), (*iwarp.SRQ)(nil), (*iwarp.Tenant)(nil),
	} {
		typ := reflect.TypeOf(handle)
		for name, recv := range map[string]reflect.Value{"nil": reflect.Zero(typ), "zero": reflect.New(typ.Elem())} {
			for i := range typ.NumMethod() {
				m := typ.Method(i)
				n := m.Type.NumOut()
				if n == 0 || m.Type.Out(n-1) != reflect.TypeFor[error]() || m.Name == "Err" {
					continue
				}
				if typ == reflect.TypeFor[*iwarp.MW]() && name == "zero" {
					continue // a window without a QP is one that is closed
				}
				out, panicked := call(t, recv, m)
				if panicked != nil {
					t.Errorf("%s of a %s %v panics: %v", m.Name, name, typ, panicked)
					continue
				}
				if err, _ := out[n-1].Interface().(error); !errors.Is(err, os.ErrInvalid) {
					t.Errorf("%s of a %s %v: %v, want os.ErrInvalid", m.Name, name, typ, err)
				}
			}
		}
	}
}

// What ends something does nothing where there is nothing to end.
func TestEndsOfNothing(t *testing.T) {
	for name, c := range map[string]*iwarp.Conn{"nil": nil, "zero": {}} {
		for what, end := range map[string]func(){
			"Abort": c.Abort, "CloseWrite": c.CloseWrite, "CloseWithError": func() { c.CloseWithError(nil) },
		} {
			if panicked := recovered(end); panicked != nil {
				t.Errorf("%s of a %s Conn panics: %v", what, name, panicked)
			}
		}
	}
	for name, m := range map[string]*iwarp.MR{"nil": nil, "zero": {}} {
		if panicked := recovered(m.Invalidate); panicked != nil {
			t.Errorf("Invalidate of a %s MR panics: %v", name, panicked)
		}
	}
}

func recovered(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}

// What a program may write down as a zero value has methods that take it.
func TestZeroValues(t *testing.T) {
	for _, value := range []any{
		new(iwarp.Bind), new(iwarp.Completion), new(iwarp.Config), (*iwarp.Config)(nil), new(iwarp.ConnectionState),
		new(iwarp.DeclinedError),
		new(iwarp.Dialer), (*iwarp.Dialer)(nil), new(iwarp.LimitError), new(iwarp.ListenConfig),
		(*iwarp.ListenConfig)(nil), new(iwarp.Op),
		new(iwarp.PostError), new(iwarp.ProtocolError), new(iwarp.RTR), new(iwarp.RejectError), new(iwarp.RemoteBuffer),
		new(iwarp.STag),
		new(iwarp.Status), new(iwarp.Support), new(iwarp.MW),
	} {
		typ := reflect.TypeOf(value)
		for i := range typ.NumMethod() {
			if _, panicked := call(t, reflect.ValueOf(value), typ.Method(i)); panicked != nil {
				t.Errorf("%s of %#v panics: %v", typ.Method(i).Name, value, panicked)
			}
		}
	}
}

// What is not made is refused where it is passed on, and so is nil where something is
// needed.
func TestNotMadePassedOn(t *testing.T) {
	ctx := t.Context()
	qp := newQP(t, newDevice(t, nil), nil)
	pd := qp.PD()
	for what, err := range map[string]error{
		"Device": second(iwarp.Dial(ctx, "tcp", "127.0.0.1:1", &iwarp.Config{Device: new(iwarp.Device)})),
		"PD":     second(iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{PD: new(iwarp.PD)})),
		"QP":     second(iwarp.Dial(ctx, "tcp", "127.0.0.1:1", &iwarp.Config{QP: new(iwarp.QP)})),
		"conn":   second(iwarp.Client(ctx, nil, nil)), "server's conn": second(iwarp.Server(ctx, nil, nil)),
		"request's conn": second(iwarp.ServerRequest(ctx, nil, nil)),
		"LLP":            second(iwarp.NewConn(nil, iwarp.ConnectionState{}, nil)),
		"listener":       second(iwarp.NewListener(nil, nil)),
	} {
		if !errors.Is(err, os.ErrInvalid) {
			t.Errorf("%s: %v, want os.ErrInvalid", what, err)
		}
	}
	for what, err := range map[string]error{
		"SendCQ":       second(pd.NewQP(&iwarp.QPConfig{SendCQ: new(iwarp.CQ)})),
		"RecvCQ":       second(pd.NewQP(&iwarp.QPConfig{RecvCQ: new(iwarp.CQ)})),
		"SRQ":          second(pd.NewQP(&iwarp.QPConfig{SRQ: new(iwarp.SRQ)})),
		"MROptions.QP": second(pd.NewMR(nil, 0, &iwarp.MROptions{QP: new(iwarp.QP)})),
	} {
		if err == nil {
			t.Errorf("%s that was not made: no error", what)
		}
	}
	a, _ := qpPair(t, nil, nil)
	for _, b := range []*iwarp.Bind{nil, {}, {MW: new(iwarp.MW)}, {MW: new(iwarp.MW), MR: new(iwarp.MR)}} {
		if err := a.PostSend(iwarp.SendWR{Op: iwarp.OpBind, Bind: b}); !errors.Is(err, iwarp.ErrInvalidWR) {
			t.Errorf("%+v: %v, want ErrInvalidWR", b, err)
		}
	}
	if err := a.PostSend(iwarp.SendWR{}); !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("a zero SendWR: %v, want ErrInvalidWR", err)
	}
}

func second[T any](_ T, err error) error { return err }

// go doc shows nothing of what is behind an alias: the comment has its fields and methods.
func TestAliasesAreDescribed(t *testing.T) {
	src := ""
	for _, file := range []string{"errors.go", "wr.go"} {
		b, err := os.ReadFile(file)
		check(t, file, err)
		src += string(b)
	}
	for name, typ := range map[string]reflect.Type{
		"ProtocolError": reflect.TypeFor[iwarp.ProtocolError](), "RejectError": reflect.TypeFor[iwarp.RejectError](),
		"DeclinedError": reflect.TypeFor[iwarp.DeclinedError](), "SendWR": reflect.TypeFor[iwarp.SendWR](),
		"RemoteBuffer": reflect.TypeFor[iwarp.RemoteBuffer](),
	} {
		doc := regexp.MustCompile(`(?m)((?:^//.*\n)+)type ` + name + ` = `).FindString(src)
		for i := range typ.NumField() {
			if f := typ.Field(i).Name; !regexp.MustCompile(`\b` + f + `\b`).MatchString(doc) {
				t.Errorf("the comment of %s says nothing of its field %s", name, f)
			}
		}
		for i := range reflect.PointerTo(typ).NumMethod() {
			m := reflect.PointerTo(typ).Method(i).Name
			if m != "Error" && m != "Unwrap" && m != "Is" && !strings.Contains(doc, ") "+m+"(") {
				t.Errorf("the comment of %s says nothing of its method %s", name, m)
			}
		}
	}
}
