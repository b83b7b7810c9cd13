package advise

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/sqlc-dev/meyer/ast"
)

// sqliteExpr converts an expression of SQLite. An unknown kind becomes an op of its parts.
func sqliteExpr(x ast.Expr) *expr {
	if x == nil || reflect.ValueOf(x).IsZero() {
		return nil
	}
	switch x := x.(type) {
	case *ast.Literal:
		return sqliteLiteral(x)
	case *ast.BindParam:
		return &expr{kind: valueExpr, name: "param", text: fmt.Sprintf("?%d%s", x.Number, x.Name)}
	case *ast.Ident:
		if name := identName(x); name == "true" || name == "false" {
			// unless a column has that name
			return truthLiteral(name == "true")
		}
		return &expr{kind: columnExpr, name: identName(x)}
	case *ast.QualifiedRef:
		return sqliteColumn(x)
	case *ast.ParenExpr:
		return sqliteExpr(x.X)
	case *ast.CollateExpr:
		return sqliteExpr(x.X)
	case *ast.VectorExpr:
		return &expr{kind: listExpr, args: sqliteList(x.List)}
	case *ast.FuncCall:
		return sqliteCall(x)
	case *ast.SubqueryExpr:
		return &expr{kind: queryExpr, args: sqliteParts(x.Select)}
	case *ast.ExistsExpr:
		return &expr{kind: queryExpr, args: sqliteParts(x.Select)}
	}
	return sqliteOperation(x)
}

func sqliteLiteral(x *ast.Literal) *expr {
	switch x.Kind {
	case ast.LitNull:
		return &expr{kind: valueExpr, text: "NULL"}
	case ast.LitCurrentDate, ast.LitCurrentTime, ast.LitCurrentTimestamp:
		return &expr{kind: callExpr, name: "current_timestamp"}
	}
	switch x.Kind {
	case ast.LitInteger:
		return integerLiteral(strings.ToLower(x.Raw))
	case ast.LitString:
		return textLiteral(strings.TrimSuffix(strings.TrimPrefix(x.Raw, "'"), "'"))
	}
	return &expr{kind: valueExpr, text: strings.ToLower(x.Raw)}
}

// sqliteOperation converts an expression that is made of others.
func sqliteOperation(x ast.Expr) *expr {
	switch x := x.(type) {
	case *ast.BinaryExpr:
		name := strings.ToLower(x.Op.String())
		if name == "==" {
			name = "="
		}
		return newOp(name, sqliteExpr(x.X), sqliteExpr(x.Y))
	case *ast.UnaryExpr:
		if l, ok := x.X.(*ast.Literal); ok && x.Op == ast.OpMinus && l.Kind == ast.LitInteger {
			return negate(sqliteLiteral(l))
		}
		return newOp("unary "+strings.ToLower(x.Op.String()), sqliteExpr(x.X))
	case *ast.IsExpr:
		return sqliteIs(x)
	case *ast.NullCheckExpr:
		name := "is not null"
		if x.Test == ast.TestIsNull {
			name = "is null"
		}
		return newOp(name, sqliteExpr(x.X))
	case *ast.InExpr:
		return sqliteIn(x)
	case *ast.LikeExpr:
		return newOp("other", sqliteExpr(x.X), sqliteExpr(x.Y), sqliteExpr(x.Escape))
	case *ast.CastExpr:
		return newOp(cuttingCast, sqliteExpr(x.X))
	}
	e := &expr{kind: opExpr, name: "other"}
	for _, c := range x.Children() {
		if i, ok := c.(*ast.Ident); ok {
			e.args = append(e.args, sqliteExpr(i))
		}
	}
	e.args = append(e.args, sqliteChildren(x)...)
	return e
}

func sqliteIn(x *ast.InExpr) *expr {
	name, in := "in", &expr{kind: listExpr, args: sqliteList(x.List)}
	if x.Not {
		name = "not in"
	}
	if x.Select != nil || x.Table != nil {
		in = &expr{kind: queryExpr, args: sqliteParts(x.Select)}
	}
	return newOp(name, sqliteExpr(x.X), in)
}

// sqliteIs converts x IS NULL, and IS used as =.
func sqliteIs(x *ast.IsExpr) *expr {
	left, right := sqliteExpr(x.X), sqliteExpr(x.Y)
	if right != nil && right.text == "NULL" && right.kind == valueExpr {
		if x.Not != x.Distinct {
			return newOp("is not null", left)
		}
		return newOp("is null", left)
	}
	if x.Not != x.Distinct {
		return newOp("<>", left, right)
	}
	return newOp("=", left, right)
}

func sqliteCall(x *ast.FuncCall) *expr {
	e := &expr{kind: callExpr, name: identName(x.Name), args: sqliteList(x.Args)}
	if wordSet("date time datetime julianday unixepoch strftime timediff")[e.name] {
		e.name = sqliteTime(e)
	}
	if x.Filter != nil {
		e.args = append(e.args, sqliteExpr(x.Filter))
	}
	for _, t := range x.OrderBy {
		e.args = append(e.args, sqliteChildren(t)...)
	}
	if x.Over != nil {
		e.args = append(e.args, sqliteChildren(x.Over)...)
	}
	return e
}

// sqliteTime returns a name for a call of a time function, by its times: it reads the clock without
// one, and for 'now' and 'subsec'. What is not a literal may be 'now'.
func sqliteTime(e *expr) string {
	times := e.args
	switch {
	case e.name == "strftime" && len(times) > 0:
		times = times[1:]
	case e.name == "timediff" && len(times) == 2:
		if first := sqliteTime(&expr{name: "date", args: times[:1]}); first != "length" {
			return first
		}
		times = times[1:]
	}
	if len(times) == 0 {
		return "current_timestamp"
	}
	switch t := times[0]; {
	case t.kind != valueExpr || t.name == "param" || strings.HasPrefix(t.text, "x'"):
		return maybeNow
	case wordSet("'now' 'subsec' 'subsecond'")[strings.ToLower(t.text)]:
		return "current_timestamp"
	}
	return "length" // it stands for a pure function
}

func sqliteColumn(x *ast.QualifiedRef) *expr {
	e := &expr{kind: columnExpr}
	if n := len(x.Parts); n > 0 {
		e.name = identName(x.Parts[n-1])
		if n > 1 {
			e.table = identName(x.Parts[n-2])
		}
	}
	if e.table == "excluded" {
		e.kind = offeredExpr
	}
	return e
}

// newOp returns an op of the parts that are not nil.
func newOp(name string, parts ...*expr) *expr {
	e := &expr{kind: opExpr, name: name}
	for _, p := range parts {
		if p != nil {
			e.args = append(e.args, p)
		}
	}
	return e
}

func sqliteList(list []ast.Expr) (all []*expr) {
	for _, x := range list {
		if e := sqliteExpr(x); e != nil {
			all = append(all, e)
		}
	}
	return all
}

// sqliteParts returns the expressions of a query.
func sqliteParts(s *ast.SelectStmt) []*expr {
	if s == nil {
		return nil
	}
	return sqliteChildren(s)
}

// sqliteChildren returns the expressions below a node.
func sqliteChildren(n ast.Node) (all []*expr) {
	for _, c := range n.Children() {
		if c == nil || reflect.ValueOf(c).IsZero() {
			continue
		}
		switch c := c.(type) {
		case *ast.TableRef:
			if c.HasArgs && c.Name != nil {
				all = append(all, &expr{kind: callExpr, name: sqliteTable(c.Name), args: sqliteList(c.Args)})
			}
			all = append(all, sqliteChildren(c)...)
		case *ast.Ident, *ast.QualifiedName, *ast.TypeName: // names that are not columns
		case ast.Expr:
			if e := sqliteExpr(c); e != nil {
				all = append(all, e)
			}
		default:
			all = append(all, sqliteChildren(c)...)
		}
	}
	return all
}
