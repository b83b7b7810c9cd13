package advise

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// postgresExpr converts an expression of PostgreSQL. An unknown kind becomes an op of its parts.
func postgresExpr(v any) *expr {
	name, n := singleField(v)
	switch name {
	case "":
		return nil
	case "A_Const":
		return postgresConst(n)
	case "ParamRef":
		return &expr{kind: valueExpr, name: "param", text: fmt.Sprint("$", n["number"])}
	case "SetToDefault":
		return &expr{kind: defaultExpr}
	case "ColumnRef":
		return postgresColumnRef(n)
	case "TypeCast":
		return postgresCast(n)
	case "CurrentOfExpr":
		return &expr{kind: callExpr, name: "current of"}
	case "A_Expr":
		return postgresOperator(n)
	case "BoolExpr":
		return newOp(map[string]string{"AND_EXPR": "and", "OR_EXPR": "or"}[n.textField("boolop")], postgresList(n.listField("args"))...)
	case "NullTest":
		if n.textField("nulltesttype") == "IS_NULL" {
			return newOp("is null", postgresExpr(n["arg"]))
		}
		return newOp("is not null", postgresExpr(n["arg"]))
	case "RowExpr", "List":
		return &expr{kind: listExpr, args: append(postgresList(n.listField("args")), postgresList(n.listField("items"))...)}
	case "SubLink":
		test := postgresExpr(n["testexpr"])
		q := &expr{kind: queryExpr, args: postgresParts(n["subselect"])}
		if test != nil {
			return newOp("in", test, q)
		}
		return q
	case "FuncCall":
		return postgresCall(n)
	case "CoalesceExpr":
		return &expr{kind: callExpr, name: "coalesce", args: postgresList(n.listField("args"))}
	case "MinMaxExpr":
		return &expr{kind: callExpr, name: "greatest", args: postgresList(n.listField("args"))}
	case "SQLValueFunction":
		return postgresValueFunction(n)
	}
	return &expr{kind: opExpr, name: "other", args: postgresFields(n)}
}

// postgresCast converts a cast. One to a type with a length in brackets may cut the value.
func postgresCast(n treeNode) *expr {
	inner, to := postgresExpr(n["arg"]), n.childNode("typeName")
	if inner == nil {
		return nil
	}
	if v, _ := stripCasts(inner); v.kind == valueExpr && (specialWords[significantLetters(v.text)] || isDateWord(v)) && timeTypes[postgresTypeName(to)] {
		return &expr{kind: callExpr, name: "current_time", args: []*expr{inner}} // 'now'::timestamp
	}
	if len(to.listField("typmods")) > 0 || len(to.listField("arrayBounds")) > 0 {
		return newOp(cuttingCast, inner)
	}
	return &expr{kind: opExpr, name: castOp, text: postgresTypeName(to), args: []*expr{inner}}
}

// postgresTypeName returns the last part of the name of a type.
func postgresTypeName(n treeNode) string {
	names := stringTexts(n.listField("names"))
	if len(names) == 0 {
		return ""
	}
	return names[len(names)-1]
}

// postgresValueFunction distinguishes CURRENT_TIMESTAMP and similar functions from CURRENT_USER.
func postgresValueFunction(n treeNode) *expr {
	name := n.textField("op")
	e := &expr{kind: callExpr, name: "current_user"}
	switch {
	case strings.Contains(name, "TIMESTAMP"):
		e.name = "current_timestamp"
		if digits, _ := n["typmod"].(float64); strings.HasSuffix(name, "_N") {
			// the tree omits zero
			e.args = []*expr{integerLiteral(fmt.Sprint(int(digits)))}
		}
	case strings.Contains(name, "DATE"):
		e.name = "current_date"
	case strings.Contains(name, "TIME"):
		e.name = "current_time"
	}
	return e
}

func postgresConst(n treeNode) *expr {
	if n.boolField("isnull") {
		return &expr{kind: valueExpr, text: "NULL"}
	}
	for _, k := range []string{"ival", "fval", "boolval", "sval", "bsval"} {
		f, ok := n[k].(map[string]any)
		if !ok {
			continue
		}
		switch v, _ := f[k].(string); k { // the tree omits zero, false and the empty string
		case "ival":
			n, _ := f[k].(float64)
			return integerLiteral(fmt.Sprint(int64(n)))
		case "boolval":
			b, _ := f[k].(bool)
			return truthLiteral(b)
		case "sval":
			return textLiteral(v)
		case "fval":
			return integerLiteral(v)
		}
		text, _ := json.Marshal(f[k])
		return &expr{kind: valueExpr, text: string(text)}
	}
	return &expr{kind: valueExpr, text: "?"}
}

// systemColumns are columns that each table has.
var systemColumns = wordSet(`ctid xmin xmax cmin cmax tableoid`)

func postgresColumnRef(n treeNode) *expr {
	parts := stringTexts(n.listField("fields"))
	e := &expr{kind: columnExpr}
	if len(parts) > 0 {
		e.name = parts[len(parts)-1]
	}
	if len(parts) > 1 {
		e.table = parts[len(parts)-2]
	}
	switch {
	case e.table == "excluded":
		e.kind = offeredExpr
	case systemColumns[e.name]: // each run stores the row again
		e.kind, e.table = callExpr, ""
	}
	return e
}

func postgresOperator(n treeNode) *expr {
	name := strings.Join(stringTexts(n.listField("name")), ".")
	left, right := postgresExpr(n["lexpr"]), postgresExpr(n["rexpr"])
	switch n.textField("kind") {
	case "AEXPR_OP", "AEXPR_NOT_DISTINCT":
		if left == nil && right != nil && right.kind == valueExpr && right.name == "" && right.lit != literalText && name == "-" {
			return negate(right)
		}
		if parts := strings.Split(name, "."); len(parts) == 2 { // OPERATOR (mine.+)
			if parts[0] != "pg_catalog" {
				return &expr{kind: callExpr, name: "operator " + name, args: newOp("", left, right).args}
			}
			name = parts[1]
		}
		if left == nil {
			name = "unary " + name
		}
		return newOp(name, left, right)
	case "AEXPR_DISTINCT":
		return newOp("<>", left, right)
	case "AEXPR_IN":
		if name == "<>" {
			return newOp("not in", left, right)
		}
		return newOp("in", left, right)
	case "AEXPR_OP_ANY": // x = ANY ($1)
		return newOp("any", left, right)
	}
	return newOp("other", left, right)
}

func postgresCall(n treeNode) *expr {
	names := stringTexts(n.listField("funcname"))
	if len(names) > 1 && names[0] == "pg_catalog" {
		names = names[1:]
	}
	e := &expr{kind: callExpr, name: strings.Join(names, "."), args: postgresList(n.listField("args"))}
	for _, k := range []string{"agg_filter", "agg_order", "over"} {
		e.args = append(e.args, postgresParts(n[k])...)
	}
	if e.name == "age" && len(e.args) == 2 {
		e.name = "length" // it has two time arguments; length stands for a pure function
	}
	return e
}

func postgresList(list []any) (all []*expr) {
	for _, v := range list {
		if e := postgresExpr(v); e != nil {
			all = append(all, e)
		}
	}
	return all
}

// postgresParts returns the expressions in any part of a tree.
func postgresParts(v any) []*expr {
	switch v := v.(type) {
	case []any:
		var all []*expr
		for _, in := range v {
			all = append(all, postgresParts(in)...)
		}
		return all
	case map[string]any:
		if name, n := singleField(v); name != "" {
			switch name {
			case "A_Const", "ParamRef", "ColumnRef", "TypeCast", "A_Expr", "BoolExpr", "NullTest", "SubLink", "FuncCall", "CoalesceExpr", "MinMaxExpr",
				"SQLValueFunction", "RowExpr", "CaseExpr":
				return []*expr{postgresExpr(v)}
			}
			return postgresFields(n)
		}
		return postgresFields(v)
	}
	return nil
}

// postgresFields returns the expressions in the fields of a node, in the order of their names.
func postgresFields(n treeNode) (all []*expr) {
	names := make([]string, 0, len(n))
	for name := range n {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		all = append(all, postgresParts(n[name])...)
	}
	return all
}
