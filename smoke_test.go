package iwarp

import (
	"bytes"
	"context"
	"testing"
	"time"
)

func pair(t *testing.T, cc, sc *Config) (*Conn, *Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ln, err := Listen("tcp", "127.0.0.1:0", sc)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	type res struct {
		c   *Conn
		err error
	}
	ch := make(chan res, 1)
	go func() { c, err := ln.Accept(ctx); ch <- res{c, err} }()
	c, err := Dial(ctx, "tcp", ln.Addr().String(), cc)
	if err != nil {
		t.Fatal(err)
	}
	r := <-ch
	if r.err != nil {
		t.Fatal(r.err)
	}
	return c, r.c
}

func TestSmoke(t *testing.T) {
	a, b := pair(t, nil, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	t.Logf("%+v", a.ConnectionState())
	if err := a.Send(ctx, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	m, err := b.Recv(ctx, buf)
	if err != nil || string(buf[:m.Length]) != "hello" {
		t.Fatal(m, err)
	}
	mem := make([]byte, 1<<20)
	mr, err := b.RegisterMR(mem, RemoteRead|RemoteWrite|RemoteAtomic)
	if err != nil {
		t.Fatal(err)
	}
	src := bytes.Repeat([]byte("abcdefg"), 1<<20/7)
	if err := a.Write(ctx, src, mr.Remote(0)); err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, len(src))
	if err := a.Read(ctx, dst, mr.Remote(0)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(src, dst) {
		t.Fatal("differ")
	}
	v, err := a.FetchAdd(ctx, mr.Remote(8), 1)
	t.Log(v, err)
	if err := a.SendInvalidate(ctx, []byte("inv"), mr.STag()); err != nil {
		t.Fatal(err)
	}
	m, err = b.Recv(ctx, buf)
	t.Log(m, err, mr.Valid())
	err = a.Write(ctx, []byte("x"), mr.Remote(0))
	t.Log(err)
	<-a.Done()
	t.Log(a.Err())
	t.Log(b.Close(), b.Err())
	t.Log(a.Close(), a.Stats())
	a2, b2 := pair(t, nil, nil)
	go b2.Close()
	t.Log(a2.Close(), a2.Err(), b2.Err())
}
