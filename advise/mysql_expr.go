package advise

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/sqlc-dev/marino/ast"
	"github.com/sqlc-dev/marino/format"
	"github.com/sqlc-dev/marino/opcode"
	"github.com/sqlc-dev/marino/types"
)

// mysqlExpr converts an expression of MySQL. An unknown kind becomes an op of its parts.
func mysqlExpr(x ast.ExprNode) *expr {
	if x == nil || reflect.ValueOf(x).IsZero() {
		return nil
	}
	switch x := x.(type) {
	case ast.ParamMarkerExpr:
		return &expr{kind: valueExpr, name: "param", text: fmt.Sprintf("?%p", x)}
	case ast.ValueExpr:
		return mysqlValue(x)
	case *ast.ColumnNameExpr:
		return &expr{kind: columnExpr, name: x.Name.Name.L, table: x.Name.Table.L}
	case *ast.ValuesExpr:
		if x.Column == nil {
			return &expr{kind: offeredExpr}
		}
		return &expr{kind: offeredExpr, name: x.Column.Name.Name.L}
	case *ast.DefaultExpr:
		return &expr{kind: defaultExpr}
	case *ast.VariableExpr:
		return &expr{kind: variableExpr, args: mysqlList([]ast.ExprNode{x.Value})}
	case *ast.ParenthesesExpr:
		return mysqlExpr(x.Expr)
	case *ast.RowExpr:
		return &expr{kind: listExpr, args: mysqlList(x.Values)}
	case *ast.BinaryOperationExpr:
		return newOp(mysqlOp(x.Op), mysqlExpr(x.L), mysqlExpr(x.R))
	case *ast.UnaryOperationExpr:
		v := mysqlExpr(x.V)
		if v != nil && v.kind == valueExpr && v.name == "" && v.lit != literalText && x.Op == opcode.Minus {
			return negate(v)
		}
		return newOp("unary", v)
	case *ast.IsNullExpr:
		if x.Not {
			return newOp("is not null", mysqlExpr(x.Expr))
		}
		return newOp("is null", mysqlExpr(x.Expr))
	case *ast.PatternInExpr:
		name, in := "in", &expr{kind: listExpr, args: mysqlList(x.List)}
		if x.Not {
			name = "not in"
		}
		if x.Sel != nil {
			in = &expr{kind: queryExpr, args: mysqlChildren(x.Sel)}
		}
		return newOp(name, mysqlExpr(x.Expr), in)
	case *ast.SubqueryExpr:
		return &expr{kind: queryExpr, args: mysqlChildren(x.Query)}
	case *ast.FuncCallExpr:
		return mysqlCall(x)
	case *ast.FuncCastExpr:
		return mysqlCast(x)
	case *ast.AggregateFuncExpr:
		// with ORDER BY
		return &expr{kind: callExpr, name: strings.ToLower(x.F), args: mysqlChildren(x)}
	case *ast.WindowFuncExpr:
		return &expr{kind: callExpr, name: strings.ToLower(x.Name), args: mysqlChildren(x)}
	}
	return &expr{kind: opExpr, name: "other", args: mysqlChildren(x)}
}

// mysqlCast converts a cast. One to a date gives NULL for what is no date.
func mysqlCast(x *ast.FuncCastExpr) *expr {
	if t := x.Tp.EvalType(); t == types.ETString || t == types.ETInt || t == types.ETDecimal {
		return newOp(cuttingCast, mysqlExpr(x.Expr))
	}
	return newOp("other", mysqlExpr(x.Expr))
}

func mysqlCall(x *ast.FuncCallExpr) *expr {
	e := &expr{kind: callExpr, name: x.FnName.L, args: mysqlList(x.Args)}
	if e.name == "unix_timestamp" && len(e.args) > 0 {
		e.name = "length" // it has a time argument; length stands for a pure function
	}
	if x.Schema.L != "" {
		e.name = x.Schema.L + "." + e.name
	}
	return e
}

func mysqlValue(x ast.ValueExpr) *expr {
	var b strings.Builder
	if err := x.Restore(format.NewRestoreCtx(format.DefaultRestoreFlags, &b)); err != nil {
		return &expr{kind: valueExpr, text: fmt.Sprintf("?%p", x)}
	}
	text := strings.ToLower(b.String())
	switch v := x.GetValue().(type) {
	case nil:
		return &expr{kind: valueExpr, text: "NULL"}
	case string:
		return textLiteral(v)
	case int64, uint64:
		if text == "true" || text == "false" {
			return truthLiteral(text == "true")
		}
		return integerLiteral(text)
	}
	return &expr{kind: valueExpr, text: text}
}

// mysqlOps has another name for OR: || is one or joins strings, as sql_mode says.
var mysqlOps = map[opcode.Op]string{
	opcode.LogicAnd: "and", opcode.LogicOr: "either", opcode.EQ: "=", opcode.NullEQ: "=", opcode.NE: "<>", opcode.LT: "<", opcode.LE: "<=", opcode.GT: ">",
	opcode.GE: ">=", opcode.Plus: "+", opcode.Minus: "-", opcode.Mul: "*", opcode.Or: "|", opcode.And: "&",
}

func mysqlOp(o opcode.Op) string {
	if name := mysqlOps[o]; name != "" {
		return name
	}
	return "other"
}

func mysqlList(list []ast.ExprNode) (all []*expr) {
	for _, x := range list {
		if e := mysqlExpr(x); e != nil {
			all = append(all, e)
		}
	}
	return all
}

// mysqlChildren returns the outermost expressions below a node, also those of subqueries and joins.
func mysqlChildren(n ast.Node) []*expr {
	if n == nil || reflect.ValueOf(n).IsZero() {
		return nil
	}
	v := &mysqlVisitor{top: n}
	n.Accept(v)
	return v.found
}

type mysqlVisitor struct {
	top   ast.Node
	found []*expr
}

func (v *mysqlVisitor) Enter(n ast.Node) (ast.Node, bool) {
	if x, ok := n.(ast.ExprNode); ok && n != v.top {
		if e := mysqlExpr(x); e != nil {
			v.found = append(v.found, e)
		}
		return n, true
	}
	return n, false
}

func (v *mysqlVisitor) Leave(n ast.Node) (ast.Node, bool) { return n, true }
