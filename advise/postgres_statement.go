package advise

import "strings"

// postgresDone are statements that do nothing new when they run again, or that change no data.
var postgresDone = wordSet(`VariableSetStmt VariableShowStmt GrantStmt GrantRoleStmt LockStmt ListenStmt UnlistenStmt AnalyzeStmt VacuumStmt ReindexStmt CheckPointStmt
	DiscardStmt DeallocateStmt ConstraintsSetStmt CommentStmt AlterRoleSetStmt AlterDatabaseSetStmt AlterOwnerStmt AlterDefaultPrivilegesStmt ClosePortalStmt
	ClusterStmt`)

func postgresStatement(v any) statement {
	name, n := singleField(v)
	switch name {
	case "SelectStmt":
		return postgresSelect(n)
	case "InsertStmt":
		return postgresInsert(n)
	case "UpdateStmt":
		st := statement{kind: kindUpdate, name: "UPDATE", where: postgresExpr(n["whereClause"]), sets: postgresSets(n.listField("targetList")), inner: postgresWith(n)}
		return st.withPostgresTables(n, n.listField("fromClause"))
	case "DeleteStmt":
		st := statement{kind: kindDelete, name: "DELETE", where: postgresExpr(n["whereClause"]), inner: postgresWith(n)}
		return st.withPostgresTables(n, n.listField("usingClause"))
	case "MergeStmt":
		return statement{kind: kindMerge, name: "MERGE"}
	case "ExplainStmt":
		st := statement{kind: kindRead, name: "EXPLAIN"}
		for _, o := range n.listField("options") {
			if _, f := singleField(o); strings.EqualFold(f.textField("defname"), "analyze") {
				st.inner = []statement{postgresStatement(n["query"])}
			}
		}
		return st
	case "PrepareStmt":
		return statement{kind: kindIdempotent, name: "PREPARE", inner: []statement{postgresStatement(n["query"])}}
	case "CallStmt":
		return statement{kind: kindCall, name: "CALL"}
	case "DoStmt":
		return statement{kind: kindCall, name: "DO"}
	case "ExecuteStmt":
		return statement{kind: kindCall, name: "EXECUTE"}
	case "DeclareCursorStmt": // WITH HOLD runs the query at once
		return statement{kind: kindIdempotent, name: "DECLARE", inner: postgresInner(n["query"])}
	case "FetchStmt":
		return statement{kind: kindCall, name: "FETCH"}
	case "CopyStmt":
		switch {
		case n.boolField("is_from"):
			return statement{kind: kindLoad, name: "COPY"}
		case n.boolField("is_program"):
			return statement{kind: kindCall, name: "COPY TO PROGRAM"}
		}
		return statement{kind: kindRead, name: "COPY", inner: postgresInner(n["query"])}
	case "NotifyStmt":
		return statement{kind: kindNotify, name: "NOTIFY"}
	case "TruncateStmt":
		return statement{kind: kindTruncate, name: "TRUNCATE"}
	case "TransactionStmt":
		if k := n.textField("kind"); k == "TRANS_STMT_COMMIT" || k == "TRANS_STMT_COMMIT_PREPARED" {
			return statement{kind: kindCommit, name: "COMMIT"}
		}
		return statement{kind: kindIdempotent, name: "A statement about a transaction"}
	}
	if postgresDone[name] {
		return statement{kind: kindIdempotent, name: "A statement about the session, rights or upkeep"}
	}
	return postgresDefinition(name, n)
}

func postgresSelect(n treeNode) statement {
	st := statement{kind: kindRead, name: "SELECT", inner: postgresWith(n), locks: len(n.listField("lockingClause")) > 0}
	if n["intoClause"] != nil {
		return statement{kind: kindDefine, name: "SELECT INTO"}
	}
	for name, part := range n {
		if name != "withClause" {
			st.allExprs = append(st.allExprs, postgresParts(part)...)
		}
	}
	return st
}

// postgresWith returns the statements in WITH that write.
func postgresWith(n treeNode) (inner []statement) {
	for _, v := range n.childNode("withClause").listField("ctes") {
		if name, cte := singleField(v); name == "CommonTableExpr" {
			inner = append(inner, postgresInner(cte["ctequery"])...)
		}
	}
	return inner
}

// postgresInner converts a statement inside another one.
func postgresInner(v any) []statement {
	if name, _ := singleField(v); name == "" {
		return nil
	}
	return []statement{postgresStatement(v)}
}

func postgresInsert(n treeNode) statement {
	st := statement{kind: kindInsert, name: "INSERT", inner: postgresWith(n), ownNumbers: n.textField("override") == "OVERRIDING_USER_VALUE"}
	st = st.withPostgresTables(n, nil)
	for _, c := range n.listField("cols") {
		_, f := singleField(c)
		st.columns = append(st.columns, strings.ToLower(f.textField("name")))
	}
	if name, sel := singleField(n["selectStmt"]); name == "SelectStmt" {
		rows := sel.listField("valuesLists")
		st.fromQuery = len(rows) == 0
		for _, r := range rows {
			_, l := singleField(r)
			var row []*expr
			for _, v := range l.listField("items") {
				row = append(row, postgresExpr(v))
			}
			st.rows = append(st.rows, row)
		}
	}
	on := n.childNode("onConflictClause")
	if on == nil {
		return st
	}
	st.onConflict = conflictIgnore
	if on.textField("action") == "ONCONFLICT_UPDATE" {
		st.onConflict = conflictUpdate
		st.sets = postgresSets(on.listField("targetList"))
		st.setWhere = postgresExpr(on["whereClause"])
	}
	if infer := on.childNode("infer"); infer != nil && infer["whereClause"] == nil {
		if u := postgresIndex(st.table, infer.listField("indexElems")); !u.partial {
			st.conflictTarget = u.columns
		}
	}
	return st
}

// withPostgresTables adds the tables of a statement that writes, and the expressions in it.
func (st statement) withPostgresTables(n treeNode, from []any) statement {
	st.table, st.alias = postgresTable(n.childNode("relation"))
	st.otherTables = len(from) > 0
	st.sources = append([]source{{st.changedName(), st.table}}, postgresSources(from)...)
	st.returningExprs = postgresParts(n.childNode("returningClause")["exprs"])
	st.returning = len(n.childNode("returningClause").listField("exprs")) > 0
	st.allExprs = postgresFields(n)
	return st
}

// postgresSources returns the tables and queries of a FROM.
func postgresSources(from []any) (all []source) {
	for _, v := range from {
		switch name, n := singleField(v); name {
		case "RangeVar":
			table, alias := postgresTable(n)
			if alias == "" {
				alias = table
			}
			all = append(all, source{alias, table})
		case "JoinExpr":
			all = append(all, postgresSources([]any{n["larg"], n["rarg"]})...)
		default:
			all = append(all, source{name: strings.ToLower(n.childNode("alias").textField("aliasname"))})
		}
	}
	return all
}

func postgresSets(list []any) (sets []assignment) {
	for _, v := range list {
		_, t := singleField(v)
		value := t["val"]
		if name, m := singleField(value); name == "MultiAssignRef" { // (a, b) = (1, 2)
			n, _ := m["colno"].(float64)
			if row, r := singleField(m["source"]); row == "RowExpr" && int(n) >= 1 && int(n) <= len(r.listField("args")) {
				value = r.listField("args")[int(n)-1]
			} else {
				value = m["source"]
			}
		}
		set := postgresExpr(value)
		for _, sub := range t.listField("indirection") { // x[i] = …
			if parts := postgresParts(sub); len(parts) > 0 {
				set = newOp("element", append([]*expr{set}, parts...)...)
			}
		}
		sets = append(sets, assignment{column: strings.ToLower(t.textField("name")), value: set})
	}
	return sets
}

func postgresTable(n treeNode) (name, alias string) {
	return strings.ToLower(n.textField("relname")), strings.ToLower(n.childNode("alias").textField("aliasname"))
}
