// Package decls names the declarations of a Go file as the tables of the tools do.
package decls

import "go/ast"

// Receiver returns the name of the type that a method belongs to and a dot, empty for
// a function.
func Receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}

// A Decl is a function, a method (T.Method), a type, or a line of constants or
// variables (by the first of them), without its documentation.
type Decl struct {
	Name string
	Node ast.Node
}

// Of returns the declarations of a file, in order.
func Of(f *ast.File) (all []Decl) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			all = append(all, Decl{Receiver(d) + d.Name.Name, d})
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					all = append(all, Decl{s.Name.Name, s})
				case *ast.ValueSpec:
					all = append(all, Decl{s.Names[0].Name, s})
				}
			}
		}
	}
	return all
}
