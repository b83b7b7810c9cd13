package advise

import "strings"

// postgresDefinition converts DDL, and all other statements.
func postgresDefinition(name string, n node) statement {
	switch name {
	case "CreateStmt":
		return postgresCreate(n)
	case "IndexStmt":
		st := statement{kind: define(n.yes("if_not_exists")), name: "CREATE INDEX"}
		st.table, _ = postgresTable(n.in("relation"))
		if n.yes("unique") {
			u := postgresIndex(st.table, n.list("indexParams"))
			u.partial = u.partial || n["whereClause"] != nil
			st.defined = []unique{u}
		}
		return st
	case "AlterTableStmt":
		st := statement{kind: defines, name: "ALTER TABLE"}
		st.table, _ = postgresTable(n.in("relation"))
		for _, c := range n.list("cmds") {
			_, cmd := only(c)
			if kind, con := only(cmd["def"]); kind == "Constraint" {
				st.defined = append(st.defined, postgresConstraint(st.table, "", con)...)
			}
		}
		return st
	case "DropStmt":
		return statement{kind: define(n.yes("missing_ok")), name: "DROP"}
	case "ViewStmt", "CreateFunctionStmt":
		return statement{kind: define(n.yes("replace")), name: "CREATE"}
	case "CreateSchemaStmt", "CreateSeqStmt", "CreateExtensionStmt", "CreateTableAsStmt":
		return statement{kind: define(n.yes("if_not_exists")), name: "CREATE"}
	}
	if strings.HasPrefix(name, "Create") || strings.HasPrefix(name, "Alter") || strings.HasPrefix(name, "Drop") || strings.HasPrefix(name, "Define") ||
		name == "RenameStmt" || name == "RuleStmt" {
		return statement{kind: defines, name: "DDL statement"}
	}
	return statement{kind: strange, name: "statement"}
}

func postgresCreate(n node) statement {
	st := statement{kind: define(n.yes("if_not_exists")), name: "CREATE TABLE", definedTable: true, columns: []string{}, types: map[string]columnType{}}
	st.table, _ = postgresTable(n.in("relation"))
	for _, v := range n.list("tableElts") {
		kind, f := only(v)
		switch kind {
		case "ColumnDef":
			st.postgresColumn(f)
		case "Constraint":
			st.defined = append(st.defined, postgresConstraint(st.table, "", f)...)
		case "TableLikeClause":
			st.definedTable = false
		}
	}
	return st
}

// postgresColumn adds a column to a table.
func (st *statement) postgresColumn(f node) {
	column := strings.ToLower(f.text("colname"))
	st.columns = append(st.columns, column)
	typ := f.in("typeName")
	precision := ""
	for _, v := range pgList(typ.list("typmods")) {
		precision = v.text
	}
	st.types[column] = postgresType(strs(typ.list("names")), precision)
	if len(typ.list("arrayBounds")) > 0 {
		st.types[column] = columnType{class: otherClass}
	}
	for _, t := range strs(typ.list("names")) {
		if words("serial bigserial smallserial serial4 serial8 serial2")[t] {
			st.autoColumns = append(st.autoColumns, column)
		}
	}
	for _, c := range f.list("constraints") {
		_, con := only(c)
		st.defined = append(st.defined, postgresConstraint(st.table, column, con)...)
		switch con.text("contype") {
		case "CONSTR_IDENTITY":
			st.autoColumns = append(st.autoColumns, column)
			st.identity = append(st.identity, column)
		case "CONSTR_GENERATED":
			st.computed = append(st.computed, column)
		case "CONSTR_DEFAULT":
			if !pgExpr(con["raw_expr"]).constant() {
				st.drawn = append(st.drawn, column)
			}
		}
	}
}

// postgresConstraint returns the unique index that a constraint creates, on its keys or on the
// column that it follows.
func postgresConstraint(table, column string, n node) []unique {
	u := unique{table: table, columns: strs(n.list("keys")), primary: n.text("contype") == "CONSTR_PRIMARY"}
	if !u.primary && n.text("contype") != "CONSTR_UNIQUE" {
		return nil
	}
	if len(u.columns) == 0 && column != "" {
		u.columns = []string{column}
	}
	return []unique{u}
}

// postgresIndex returns an index of these elements. It is partial if one is an expression.
func postgresIndex(table string, elems []any) unique {
	u := unique{table: table}
	for _, v := range elems {
		_, e := only(v)
		if name := e.text("name"); name != "" {
			u.columns = append(u.columns, strings.ToLower(name))
		} else {
			u.partial = true
		}
	}
	return u
}
