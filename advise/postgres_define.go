package advise

import "strings"

// postgresDefinition converts DDL, and all other statements.
func postgresDefinition(name string, n treeNode) statement {
	switch name {
	case "CreateStmt":
		return postgresCreate(n)
	case "IndexStmt":
		st := statement{kind: ddlKind(n.boolField("if_not_exists")), name: "CREATE INDEX"}
		st.table, _ = postgresTable(n.childNode("relation"))
		if n.boolField("unique") {
			u := postgresIndex(st.table, n.listField("indexParams"))
			u.partial = u.partial || n["whereClause"] != nil
			st.uniqueIndexes = []uniqueIndex{u}
		}
		return st
	case "AlterTableStmt":
		st := statement{kind: kindDefine, name: "ALTER TABLE"}
		st.table, _ = postgresTable(n.childNode("relation"))
		for _, c := range n.listField("cmds") {
			_, cmd := singleField(c)
			if kind, con := singleField(cmd["def"]); kind == "Constraint" {
				st.uniqueIndexes = append(st.uniqueIndexes, postgresConstraint(st.table, "", con)...)
			}
		}
		return st
	case "DropStmt":
		return statement{kind: ddlKind(n.boolField("missing_ok")), name: "DROP"}
	case "ViewStmt", "CreateFunctionStmt":
		return statement{kind: ddlKind(n.boolField("replace")), name: "CREATE"}
	case "CreateSchemaStmt", "CreateSeqStmt", "CreateExtensionStmt", "CreateTableAsStmt":
		return statement{kind: ddlKind(n.boolField("if_not_exists")), name: "CREATE"}
	}
	if strings.HasPrefix(name, "Create") || strings.HasPrefix(name, "Alter") || strings.HasPrefix(name, "Drop") || strings.HasPrefix(name, "Define") ||
		name == "RenameStmt" || name == "RuleStmt" {
		return statement{kind: kindDefine, name: "DDL statement"}
	}
	return statement{kind: kindUnknown, name: "statement"}
}

func postgresCreate(n treeNode) statement {
	st := statement{kind: ddlKind(n.boolField("if_not_exists")), name: "CREATE TABLE", definedTable: true, columns: []string{}, types: map[string]columnType{}}
	st.table, _ = postgresTable(n.childNode("relation"))
	for _, v := range n.listField("tableElts") {
		kind, f := singleField(v)
		switch kind {
		case "ColumnDef":
			st.addPostgresColumn(f)
		case "Constraint":
			st.uniqueIndexes = append(st.uniqueIndexes, postgresConstraint(st.table, "", f)...)
		case "TableLikeClause":
			st.definedTable = false
		}
	}
	return st
}

// addPostgresColumn adds a column to a table.
func (st *statement) addPostgresColumn(f treeNode) {
	column := strings.ToLower(f.textField("colname"))
	st.columns = append(st.columns, column)
	typ := f.childNode("typeName")
	precision := ""
	for _, v := range postgresList(typ.listField("typmods")) {
		precision = v.text
	}
	st.types[column] = postgresType(stringTexts(typ.listField("names")), precision)
	if len(typ.listField("arrayBounds")) > 0 {
		st.types[column] = columnType{class: otherClass}
	}
	for _, t := range stringTexts(typ.listField("names")) {
		if wordSet("serial bigserial smallserial serial4 serial8 serial2")[t] {
			st.autoColumns = append(st.autoColumns, column)
		}
	}
	for _, c := range f.listField("constraints") {
		_, con := singleField(c)
		st.uniqueIndexes = append(st.uniqueIndexes, postgresConstraint(st.table, column, con)...)
		switch con.textField("contype") {
		case "CONSTR_IDENTITY":
			st.autoColumns = append(st.autoColumns, column)
			st.identity = append(st.identity, column)
		case "CONSTR_GENERATED":
			st.computed = append(st.computed, column)
		case "CONSTR_DEFAULT":
			if !postgresExpr(con["raw_expr"]).isConstant() {
				st.varyingDefaults = append(st.varyingDefaults, column)
			}
		}
	}
}

// postgresConstraint returns the unique index that a constraint creates, on its keys or on the
// column that it follows.
func postgresConstraint(table, column string, n treeNode) []uniqueIndex {
	u := uniqueIndex{table: table, columns: stringTexts(n.listField("keys")), primary: n.textField("contype") == "CONSTR_PRIMARY"}
	if !u.primary && n.textField("contype") != "CONSTR_UNIQUE" {
		return nil
	}
	if len(u.columns) == 0 && column != "" {
		u.columns = []string{column}
	}
	return []uniqueIndex{u}
}

// postgresIndex returns an index of these elements. It is partial if one is an expression.
func postgresIndex(table string, elems []any) uniqueIndex {
	u := uniqueIndex{table: table}
	for _, v := range elems {
		_, e := singleField(v)
		if name := e.textField("name"); name != "" {
			u.columns = append(u.columns, strings.ToLower(name))
		} else {
			u.partial = true
		}
	}
	return u
}
