package advise

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// pgExpr converts an expression of PostgreSQL. An unknown kind becomes an op of its parts.
func pgExpr(v any) *expr {
	name, n := only(v)
	switch name {
	case "":
		return nil
	case "A_Const":
		return pgConst(n)
	case "ParamRef":
		return &expr{kind: plain, name: "param", text: fmt.Sprint("$", n["number"])}
	case "SetToDefault":
		return &expr{kind: standard}
	case "ColumnRef":
		return pgColumn(n)
	case "TypeCast":
		return pgCast(n)
	case "CurrentOfExpr":
		return &expr{kind: call, name: "current of"}
	case "A_Expr":
		return pgOperator(n)
	case "BoolExpr":
		return operation(map[string]string{"AND_EXPR": "and", "OR_EXPR": "or"}[n.text("boolop")], pgList(n.list("args"))...)
	case "NullTest":
		if n.text("nulltesttype") == "IS_NULL" {
			return operation("is null", pgExpr(n["arg"]))
		}
		return operation("is not null", pgExpr(n["arg"]))
	case "RowExpr", "List":
		return &expr{kind: list, args: append(pgList(n.list("args")), pgList(n.list("items"))...)}
	case "SubLink":
		test := pgExpr(n["testexpr"])
		q := &expr{kind: query, args: pgParts(n["subselect"])}
		if test != nil {
			return operation("in", test, q)
		}
		return q
	case "FuncCall":
		return pgCall(n)
	case "CoalesceExpr":
		return &expr{kind: call, name: "coalesce", args: pgList(n.list("args"))}
	case "MinMaxExpr":
		return &expr{kind: call, name: "greatest", args: pgList(n.list("args"))}
	case "SQLValueFunction":
		return pgValueFunction(n)
	}
	return &expr{kind: op, name: "other", args: pgFields(n)}
}

// pgCast converts a cast. One to a type with a length in brackets may cut the value.
func pgCast(n node) *expr {
	inner, to := pgExpr(n["arg"]), n.in("typeName")
	if inner == nil {
		return nil
	}
	if v, _ := uncast(inner); v.kind == plain && (special[letters(v.text)] || isDateWord(v)) && timeTypes[pgTypeName(to)] {
		return &expr{kind: call, name: "current_time", args: []*expr{inner}} // 'now'::timestamp
	}
	if len(to.list("typmods")) > 0 || len(to.list("arrayBounds")) > 0 {
		return operation(cutting, inner)
	}
	return &expr{kind: op, name: cast, text: pgTypeName(to), args: []*expr{inner}}
}

// pgTypeName returns the last part of the name of a type.
func pgTypeName(n node) string {
	names := strs(n.list("names"))
	if len(names) == 0 {
		return ""
	}
	return names[len(names)-1]
}

// pgValueFunction distinguishes CURRENT_TIMESTAMP and similar functions from CURRENT_USER.
func pgValueFunction(n node) *expr {
	name := n.text("op")
	e := &expr{kind: call, name: "current_user"}
	switch {
	case strings.Contains(name, "TIMESTAMP"):
		e.name = "current_timestamp"
		if digits, _ := n["typmod"].(float64); strings.HasSuffix(name, "_N") {
			// the tree omits zero
			e.args = []*expr{integer(fmt.Sprint(int(digits)))}
		}
	case strings.Contains(name, "DATE"):
		e.name = "current_date"
	case strings.Contains(name, "TIME"):
		e.name = "current_time"
	}
	return e
}

func pgConst(n node) *expr {
	if n.yes("isnull") {
		return &expr{kind: plain, text: "NULL"}
	}
	for _, k := range []string{"ival", "fval", "boolval", "sval", "bsval"} {
		f, ok := n[k].(map[string]any)
		if !ok {
			continue
		}
		switch v, _ := f[k].(string); k { // the tree omits zero, false and the empty string
		case "ival":
			n, _ := f[k].(float64)
			return integer(fmt.Sprint(int64(n)))
		case "boolval":
			b, _ := f[k].(bool)
			return truth(b)
		case "sval":
			return quoted(v)
		case "fval":
			return integer(v)
		}
		text, _ := json.Marshal(f[k])
		return &expr{kind: plain, text: string(text)}
	}
	return &expr{kind: plain, text: "?"}
}

// systemColumns are columns that each table has.
var systemColumns = words(`ctid xmin xmax cmin cmax tableoid`)

func pgColumn(n node) *expr {
	parts := strs(n.list("fields"))
	e := &expr{kind: column}
	if len(parts) > 0 {
		e.name = parts[len(parts)-1]
	}
	if len(parts) > 1 {
		e.table = parts[len(parts)-2]
	}
	switch {
	case e.table == "excluded":
		e.kind = offered
	case systemColumns[e.name]: // each run stores the row again
		e.kind, e.table = call, ""
	}
	return e
}

func pgOperator(n node) *expr {
	name := strings.Join(strs(n.list("name")), ".")
	left, right := pgExpr(n["lexpr"]), pgExpr(n["rexpr"])
	switch n.text("kind") {
	case "AEXPR_OP", "AEXPR_NOT_DISTINCT":
		if left == nil && right != nil && right.kind == plain && right.name == "" && right.lit != ofText && name == "-" {
			return negative(right)
		}
		if parts := strings.Split(name, "."); len(parts) == 2 { // OPERATOR (mine.+)
			if parts[0] != "pg_catalog" {
				return &expr{kind: call, name: "operator " + name, args: operation("", left, right).args}
			}
			name = parts[1]
		}
		if left == nil {
			name = "unary " + name
		}
		return operation(name, left, right)
	case "AEXPR_DISTINCT":
		return operation("<>", left, right)
	case "AEXPR_IN":
		if name == "<>" {
			return operation("not in", left, right)
		}
		return operation("in", left, right)
	case "AEXPR_OP_ANY": // x = ANY ($1)
		return operation("any", left, right)
	}
	return operation("other", left, right)
}

func pgCall(n node) *expr {
	names := strs(n.list("funcname"))
	if len(names) > 1 && names[0] == "pg_catalog" {
		names = names[1:]
	}
	e := &expr{kind: call, name: strings.Join(names, "."), args: pgList(n.list("args"))}
	for _, k := range []string{"agg_filter", "agg_order", "over"} {
		e.args = append(e.args, pgParts(n[k])...)
	}
	if e.name == "age" && len(e.args) == 2 {
		e.name = "length" // it has two time arguments; length stands for a pure function
	}
	return e
}

func pgList(list []any) (all []*expr) {
	for _, v := range list {
		if e := pgExpr(v); e != nil {
			all = append(all, e)
		}
	}
	return all
}

// pgParts returns the expressions in any part of a tree.
func pgParts(v any) []*expr {
	switch v := v.(type) {
	case []any:
		var all []*expr
		for _, in := range v {
			all = append(all, pgParts(in)...)
		}
		return all
	case map[string]any:
		if name, n := only(v); name != "" {
			switch name {
			case "A_Const", "ParamRef", "ColumnRef", "TypeCast", "A_Expr", "BoolExpr", "NullTest", "SubLink", "FuncCall", "CoalesceExpr", "MinMaxExpr",
				"SQLValueFunction", "RowExpr", "CaseExpr":
				return []*expr{pgExpr(v)}
			}
			return pgFields(n)
		}
		return pgFields(v)
	}
	return nil
}

// pgFields returns the expressions in the fields of a node, in the order of their names.
func pgFields(n node) (all []*expr) {
	names := make([]string, 0, len(n))
	for name := range n {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		all = append(all, pgParts(n[name])...)
	}
	return all
}
