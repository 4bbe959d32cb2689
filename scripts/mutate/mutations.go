package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// mutation is one fault that the tests of a package should detect.
type mutation struct {
	at     token.Position
	change string // for people: "< becomes <="
	edits  []edit
}

// edit replaces the text from an offset to another of the mutation's file.
type edit struct {
	from, to int
	text     string // %d is the number of the mutation
	size     int    // of the node before which text is inserted, negative: after which
}

// finder collects the mutations of one file.
type finder struct {
	file  *token.File
	text  []byte
	info  *types.Info
	scope *types.Scope // of the package
	found []mutation
}

// findMutations lists the mutations of a file in the order of the text. All of them can be
// compiled into the same program: each is a condition on the number of the active one.
func findMutations(file *token.File, syntax *ast.File, text []byte, info *types.Info, pkg *types.Package) []mutation {
	f := &finder{file: file, text: text, info: info, scope: pkg.Scope()}
	for _, d := range syntax.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok != token.VAR {
			continue
		}
		f.visit(d, nil)
	}
	slices.SortStableFunc(f.found, func(a, b mutation) int { return cmp.Compare(a.at.Offset, b.at.Offset) })
	return f.found
}

// visit adds the mutations of n and of all nodes below. results are the results of the
// function around n.
func (f *finder) visit(n ast.Node, results *ast.FieldList) {
	ast.Inspect(n, func(m ast.Node) bool {
		switch m := m.(type) {
		case *ast.FuncDecl:
			if m.Body != nil {
				f.visit(m.Body, m.Type.Results)
			}
			return false
		case *ast.FuncLit:
			f.visit(m.Body, m.Type.Results)
			return false
		case *ast.BlockStmt:
			f.mutateStatements(m.List, results)
		case *ast.CommClause:
			f.mutateStatements(m.Body, results)
		case *ast.CaseClause:
			f.mutateStatements(m.Body, results)
			for _, e := range m.List {
				f.negate(e)
			}
		case *ast.IfStmt:
			f.negate(m.Cond)
		case *ast.ForStmt:
			f.negate(m.Cond)
		case *ast.BinaryExpr:
			f.mutateOperator(m)
		}
		return true
	})
}

// helpers has the function that replaces an operator, and the operator that it applies if
// the mutation is active.
var helpers = map[token.Token]struct {
	function string
	becomes  token.Token
}{
	token.LSS: {"mutantLess", token.LEQ}, token.LEQ: {"mutantLessOrEqual", token.LSS},
	token.GTR: {"mutantGreater", token.GEQ}, token.GEQ: {"mutantGreaterOrEqual", token.GTR},
	token.ADD: {"mutantAdd", token.SUB}, token.SUB: {"mutantSubtract", token.ADD},
	token.LAND: {"mutantAnd", token.LOR}, token.LOR: {"mutantOr", token.LAND},
}

func (f *finder) mutateOperator(e *ast.BinaryExpr) {
	if f.info.Types[e].Value != nil {
		return
	}
	switch e.Op {
	case token.LAND, token.LOR:
		f.negate(e.X)
		f.negate(e.Y)
		if f.isBool(e) {
			f.replaceOperator(e, ", func() bool { return (", ") })")
		}
	case token.EQL, token.NEQ:
		f.negateExpression(e)
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		f.negateExpression(e)
		if f.isPlain(e) {
			f.replaceOperator(e, ",", ")")
		}
	case token.ADD, token.SUB:
		if b, ok := f.info.TypeOf(e).Underlying().(*types.Basic); ok && b.Info()&types.IsNumeric != 0 && f.isPlain(e) {
			f.replaceOperator(e, ",", ")")
		}
	}
}

func (f *finder) replaceOperator(e *ast.BinaryExpr, operator, end string) {
	h := helpers[e.Op]
	at := f.file.Offset(e.OpPos)
	f.add(e.OpPos, fmt.Sprintf("%s becomes %s", e.Op, h.becomes),
		f.open(e, h.function+"(%d, "), edit{from: at, to: at + len(e.Op.String()), text: operator}, f.close(e, end))
}

// isPlain reports whether both operands can be arguments of a function with one type
// parameter. Operands whose type is a type parameter and shifts of constants cannot.
func (f *finder) isPlain(e *ast.BinaryExpr) bool {
	for _, x := range []ast.Expr{e.X, e.Y} {
		if _, ok := types.Unalias(f.info.TypeOf(x)).(*types.TypeParam); ok {
			return false
		}
		shifts := false
		ast.Inspect(x, func(n ast.Node) bool {
			b, ok := n.(*ast.BinaryExpr)
			shifts = shifts || ok && (b.Op == token.SHL || b.Op == token.SHR) && f.info.Types[b.X].Value != nil
			return !shifts
		})
		if shifts {
			return false
		}
	}
	return true
}

// negate adds the negation of a condition, unless the condition is a comparison, && or ||,
// which have their own mutations.
func (f *finder) negate(e ast.Expr) {
	if e == nil || !f.isBool(e) {
		return
	}
	if _, ok := ast.Unparen(e).(*ast.BinaryExpr); !ok {
		f.negateExpression(e)
	}
}

func (f *finder) negateExpression(e ast.Expr) {
	if f.isBool(e) {
		f.add(e.Pos(), shorten(f.source(e))+" is negated", f.open(e, "(("), f.close(e, ") != mutant(%d))"))
	}
}

// isBool reports whether e has the predeclared type bool.
func (f *finder) isBool(e ast.Expr) bool {
	v := f.info.Types[e]
	b, ok := types.Unalias(v.Type).(*types.Basic)
	return ok && v.IsValue() && b.Info()&types.IsBoolean != 0
}

// mutateStatements drops statements of a list and makes functions return zero values.
func (f *finder) mutateStatements(list []ast.Stmt, results *ast.FieldList) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && f.source(call.Fun) != "panic" {
				f.drop(s)
			}
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE && !allBlank(s.Lhs) {
				f.drop(s)
			}
		case *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
			f.drop(s)
		case *ast.BranchStmt:
			if s.Tok == token.BREAK || s.Tok == token.CONTINUE {
				f.drop(s)
			}
		case *ast.ReturnStmt:
			f.mutateReturn(s, results)
		}
	}
}

func allBlank(list []ast.Expr) bool {
	return !slices.ContainsFunc(list, func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return !ok || id.Name != "_"
	})
}

func (f *finder) drop(s ast.Stmt) {
	f.add(s.Pos(), shorten(f.source(s))+" is dropped", f.open(s, "if !mutant(%d) { "), f.close(s, " }"))
}

// mutateReturn negates the result of a predicate. Other functions return zero values,
// unless they do that anyway.
func (f *finder) mutateReturn(s *ast.ReturnStmt, results *ast.FieldList) {
	if len(s.Results) == 0 || results == nil {
		return
	}
	if len(s.Results) == 1 && f.isBool(s.Results[0]) && f.info.TypeOf(results.List[0].Type) == types.Typ[types.Bool] {
		f.negate(s.Results[0])
		return
	}
	if !slices.ContainsFunc(s.Results, func(e ast.Expr) bool { return !f.isZero(e) }) {
		return
	}
	var zeros []string
	for _, r := range results.List {
		if !f.meansTheSameAt(r.Type, s.Pos()) {
			return
		}
		for range max(1, len(r.Names)) {
			zeros = append(zeros, "*new("+f.source(r.Type)+")")
		}
	}
	f.add(s.Pos(), shorten(f.source(s))+" returns zero values", f.open(s, "if mutant(%d) { return "+
		strings.ReplaceAll(strings.Join(zeros, ", "), "%", "%%")+" }; "))
}

// isZero reports whether e is the zero value of its type.
func (f *finder) isZero(e ast.Expr) bool {
	v := f.info.Types[e]
	if l, ok := ast.Unparen(e).(*ast.CompositeLit); ok {
		_, isStruct := v.Type.Underlying().(*types.Struct)
		return isStruct && len(l.Elts) == 0
	}
	if v.Value == nil {
		return v.IsNil()
	}
	switch v.Value.Kind() {
	case constant.Bool:
		return !constant.BoolVal(v.Value)
	case constant.String:
		return constant.StringVal(v.Value) == ""
	default:
		return constant.Sign(v.Value) == 0
	}
}

// meansTheSameAt reports whether the names in a type expression, which is outside of a
// function's body, mean the same at a position inside.
func (f *finder) meansTheSameAt(e ast.Expr, at token.Pos) bool {
	same := true
	ast.Inspect(e, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			same = same && f.meansTheSameAt(s.X, at)
			return false
		}
		if id, ok := n.(*ast.Ident); ok && f.info.Uses[id] != nil {
			_, o := f.scope.Innermost(at).LookupParent(id.Name, at)
			same = same && o == f.info.Uses[id]
		}
		return same
	})
	return same
}

func (f *finder) open(n ast.Node, text string) edit {
	at := f.file.Offset(n.Pos())
	return edit{from: at, to: at, text: text, size: int(n.End() - n.Pos())}
}

func (f *finder) close(n ast.Node, text string) edit {
	at := f.file.Offset(n.End())
	return edit{from: at, to: at, text: text, size: -int(n.End() - n.Pos())}
}

func (f *finder) add(at token.Pos, change string, edits ...edit) {
	f.found = append(f.found, mutation{at: f.file.Position(at), change: change, edits: edits})
}

func (f *finder) source(n ast.Node) string {
	return string(f.text[f.file.Offset(n.Pos()):f.file.Offset(n.End())])
}

// shorten returns the text on one line of at most 80 bytes.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:77], "") + "…"
	}
	return text
}

// applyMutations returns the text with all given mutations. Lines keep their numbers.
// numbers has the number of each mutation.
func applyMutations(text []byte, mutations []mutation, numbers []int) []byte {
	var edits []edit
	for i, m := range mutations {
		for _, e := range m.edits {
			if strings.Contains(e.text, "%") {
				e.text = fmt.Sprintf(e.text, numbers[i])
			}
			edits = append(edits, e)
		}
	}
	// At one offset, nodes end before others begin, inner nodes end before outer ones, and
	// outer ones begin before inner ones. Equal nodes end in the reverse order.
	order := func(a, b edit) int { return cmp.Or(cmp.Compare(a.from, b.from), compareAtOffset(a.size, b.size)) }
	slices.SortStableFunc(edits, order)
	for i := 0; i < len(edits); {
		j := i + 1
		for j < len(edits) && order(edits[i], edits[j]) == 0 {
			j++
		}
		if edits[i].size < 0 {
			slices.Reverse(edits[i:j])
		}
		i = j
	}
	var out []byte
	done := 0
	for _, e := range edits {
		out = append(out, text[done:e.from]...)
		out = append(out, e.text...)
		done = e.to
	}
	return append(out, text[done:]...)
}

// compareAtOffset orders edits of nodes by the sizes in edit.size.
func compareAtOffset(a, b int) int {
	switch {
	case a < 0 && b < 0:
		return cmp.Compare(b, a)
	case a < 0:
		return -1
	case b < 0:
		return 1
	default:
		return cmp.Compare(b, a)
	}
}
