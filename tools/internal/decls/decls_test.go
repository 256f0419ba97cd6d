package decls

import (
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

func TestOf(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x

import "fmt"

const (
	A, B = 1, 2
	C    = 3
)

type (
	T[X any] struct{}
	U[X, Y any] struct{}
)

func F() { fmt.Println() }

func (T[X]) Value()       {}
func (t *T[X]) Pointer()  {}
func (u *U[X, Y]) Two()   {}
`, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range Of(f) {
		got = append(got, d.Name)
	}
	want := []string{"A", "C", "T", "U", "F", "T.Value", "T.Pointer", "U.Two"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
