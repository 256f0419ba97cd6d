package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-iwarp/iwarp/tools/internal/decls"
)

// A mutant is anchored to a declaration and to some of its tokens. So comments, white
// space, other code of the file, and the file that the declaration is in, may change.

// module is what a mutant calls the root package.
const module = "iwarp"

// sources finds the declarations of packages, each read once.
type sources struct {
	root     string
	packages map[string]map[string][]declaration // by folder and name
}

// declaration is the text of one, and where it is.
type declaration struct {
	file     string // from the root
	src      []byte // of the file
	from, to int    // in src
}

func newSources(root string) *sources {
	return &sources{root: root, packages: make(map[string]map[string][]declaration)}
}

// find returns the declaration that a mutant names: mpa.Conn.Flush, iwarp.Conn.Close,
// internal/tcpsock.Socket.MSS.
func (s *sources) find(in string) (declaration, error) {
	dir, base := path.Split(in)
	pkg, name, ok := strings.Cut(base, ".")
	if !ok {
		return declaration{}, fmt.Errorf("%q is not package.Name", in)
	}
	if dir += pkg; dir == module {
		dir = "."
	}
	if s.packages[dir] == nil {
		all, err := s.read(dir)
		if err != nil {
			return declaration{}, err
		}
		s.packages[dir] = all
	}
	switch found := s.packages[dir][name]; len(found) {
	case 0:
		return declaration{}, fmt.Errorf("package %s has no %s", dir, name)
	case 1:
		return found[0], nil
	default:
		return declaration{}, fmt.Errorf("package %s has %s %d times", dir, name, len(found))
	}
}

// read reads the files of a package that are built here, its tests aside.
func (s *sources) read(dir string) (map[string][]declaration, error) {
	folder := filepath.Join(s.root, filepath.FromSlash(dir))
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	all := make(map[string][]declaration)
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if ok, err := build.Default.MatchFile(folder, name); err != nil || !ok {
			continue
		}
		src, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		offset := func(p token.Pos) int { return fset.Position(p).Offset }
		for _, d := range decls.Of(f) {
			all[d.Name] = append(all[d.Name],
				declaration{path.Join(dir, name), src, offset(begin(d.Node)), offset(d.Node.End())})
		}
	}
	return all, nil
}

// begin is where a declaration begins, behind its comment.
func begin(n ast.Node) token.Pos {
	if f, ok := n.(*ast.FuncDecl); ok {
		return f.Type.Func
	}
	return n.Pos()
}

// lexeme is a token of Go, and where it is.
type lexeme struct {
	text     string
	from, to int
}

// lex splits a piece of Go into tokens, without those that formatting makes: semicolons,
// and commas at the end of a list.
func lex(src []byte) (all []lexeme, err error) {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	var errs scanner.ErrorList
	s.Init(file, src, errs.Add, 0)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return all, errs.Err()
		}
		if tok == token.SEMICOLON {
			continue
		}
		if !tok.IsLiteral() {
			text = tok.String()
		}
		if n := len(all); n > 0 && all[n-1].text == "," &&
			(tok == token.RPAREN || tok == token.RBRACE || tok == token.RBRACK) {
			all = all[:n-1]
		}
		from := file.Offset(pos)
		all = append(all, lexeme{text, from, from + len(text)})
	}
}

// edit is a part of a file that other text is put in place of.
type edit struct{ from, to int }

// locate returns where the tokens of old are in a declaration, which has them once.
func (d *declaration) locate(old string) (edit, error) {
	have, err := lex(d.src[d.from:d.to])
	want, errOld := lex([]byte(old))
	if err = errors.Join(err, errOld); err != nil {
		return edit{}, err
	}
	if len(want) == 0 {
		return edit{}, errors.New("it has no text to look for")
	}
	at, n := 0, 0
	for i := range have {
		if i+len(want) <= len(have) && same(have[i:i+len(want)], want) {
			at, n = i, n+1
		}
	}
	if n != 1 {
		return edit{}, fmt.Errorf("its text is there %d times, want once: %q", n, old)
	}
	return edit{d.from + have[at].from, d.from + have[at+len(want)-1].to}, nil
}

// replace returns the file of the declarations, all of one, with other text in place of
// old in each of them.
func (s *sources) replace(in, old, other string) (file string, mutated []byte, err error) {
	var edits []edit
	for name := range strings.SplitSeq(in, ", ") {
		d, err := s.find(name)
		if err != nil {
			return "", nil, err
		}
		if file != "" && d.file != file {
			return "", nil, fmt.Errorf("%s is in %s, the one before in %s", name, d.file, file)
		}
		e, err := d.locate(old)
		if err != nil {
			return "", nil, err
		}
		file, mutated, edits = d.file, d.src, append(edits, e)
	}
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from }) // from the end on: places before it stay
	for _, e := range edits {
		mutated = slices.Concat(mutated[:e.from], []byte(other), mutated[e.to:])
	}
	return file, mutated, nil
}

func same(a, b []lexeme) bool {
	for i := range a {
		if a[i].text != b[i].text {
			return false
		}
	}
	return true
}
