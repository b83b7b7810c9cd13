package advise

import "strings"

// postgresDone are statements that do nothing new when they run again, or that change no data.
var postgresDone = words(`VariableSetStmt VariableShowStmt GrantStmt GrantRoleStmt LockStmt ListenStmt UnlistenStmt AnalyzeStmt VacuumStmt ReindexStmt CheckPointStmt
	DiscardStmt DeallocateStmt ConstraintsSetStmt CommentStmt AlterRoleSetStmt AlterDatabaseSetStmt AlterOwnerStmt AlterDefaultPrivilegesStmt ClosePortalStmt
	ClusterStmt`)

func postgresStatement(v any) statement {
	name, n := only(v)
	switch name {
	case "SelectStmt":
		return postgresSelect(n)
	case "InsertStmt":
		return postgresInsert(n)
	case "UpdateStmt":
		st := statement{kind: updates, name: "UPDATE", where: pgExpr(n["whereClause"]), sets: postgresSets(n.list("targetList")), inner: postgresWith(n)}
		return st.postgresParts(n, n.list("fromClause"))
	case "DeleteStmt":
		st := statement{kind: deletes, name: "DELETE", where: pgExpr(n["whereClause"]), inner: postgresWith(n)}
		return st.postgresParts(n, n.list("usingClause"))
	case "MergeStmt":
		return statement{kind: merges, name: "MERGE"}
	case "ExplainStmt":
		st := statement{kind: reads, name: "EXPLAIN"}
		for _, o := range n.list("options") {
			if _, f := only(o); strings.EqualFold(f.text("defname"), "analyze") {
				st.inner = []statement{postgresStatement(n["query"])}
			}
		}
		return st
	case "PrepareStmt":
		return statement{kind: settles, name: "PREPARE", inner: []statement{postgresStatement(n["query"])}}
	case "CallStmt":
		return statement{kind: runs, name: "CALL"}
	case "DoStmt":
		return statement{kind: runs, name: "DO"}
	case "ExecuteStmt":
		return statement{kind: runs, name: "EXECUTE"}
	case "DeclareCursorStmt": // WITH HOLD runs the query at once
		return statement{kind: settles, name: "DECLARE", inner: postgresInner(n["query"])}
	case "FetchStmt":
		return statement{kind: runs, name: "FETCH"}
	case "CopyStmt":
		switch {
		case n.yes("is_from"):
			return statement{kind: loads, name: "COPY"}
		case n.yes("is_program"):
			return statement{kind: runs, name: "COPY TO PROGRAM"}
		}
		return statement{kind: reads, name: "COPY", inner: postgresInner(n["query"])}
	case "NotifyStmt":
		return statement{kind: tells, name: "NOTIFY"}
	case "TruncateStmt":
		return statement{kind: empties, name: "TRUNCATE"}
	case "TransactionStmt":
		if k := n.text("kind"); k == "TRANS_STMT_COMMIT" || k == "TRANS_STMT_COMMIT_PREPARED" {
			return statement{kind: ends, name: "COMMIT"}
		}
		return statement{kind: settles, name: "A statement about a transaction"}
	}
	if postgresDone[name] {
		return statement{kind: settles, name: "A statement about the session, rights or upkeep"}
	}
	return postgresDefinition(name, n)
}

func postgresSelect(n node) statement {
	st := statement{kind: reads, name: "SELECT", inner: postgresWith(n), locks: len(n.list("lockingClause")) > 0}
	if n["intoClause"] != nil {
		return statement{kind: defines, name: "SELECT INTO"}
	}
	for name, part := range n {
		if name != "withClause" {
			st.reading = append(st.reading, pgParts(part)...)
		}
	}
	return st
}

// postgresWith returns the statements in WITH that write.
func postgresWith(n node) (inner []statement) {
	for _, v := range n.in("withClause").list("ctes") {
		if name, cte := only(v); name == "CommonTableExpr" {
			inner = append(inner, postgresInner(cte["ctequery"])...)
		}
	}
	return inner
}

// postgresInner converts a statement inside another one.
func postgresInner(v any) []statement {
	if name, _ := only(v); name == "" {
		return nil
	}
	return []statement{postgresStatement(v)}
}

func postgresInsert(n node) statement {
	st := statement{kind: inserts, name: "INSERT", inner: postgresWith(n), ownNumbers: n.text("override") == "OVERRIDING_USER_VALUE"}
	st = st.postgresParts(n, nil)
	for _, c := range n.list("cols") {
		_, f := only(c)
		st.columns = append(st.columns, strings.ToLower(f.text("name")))
	}
	if name, sel := only(n["selectStmt"]); name == "SelectStmt" {
		rows := sel.list("valuesLists")
		st.fromQuery = len(rows) == 0
		for _, r := range rows {
			_, l := only(r)
			var row []*expr
			for _, v := range l.list("items") {
				row = append(row, pgExpr(v))
			}
			st.rows = append(st.rows, row)
		}
	}
	on := n.in("onConflictClause")
	if on == nil {
		return st
	}
	st.onConflict = ignores
	if on.text("action") == "ONCONFLICT_UPDATE" {
		st.onConflict = changes
		st.sets = postgresSets(on.list("targetList"))
		st.setWhere = pgExpr(on["whereClause"])
	}
	if infer := on.in("infer"); infer != nil && infer["whereClause"] == nil {
		if u := postgresIndex(st.table, infer.list("indexElems")); !u.partial {
			st.target = u.columns
		}
	}
	return st
}

// postgresParts adds the tables of a statement that writes, and the expressions in it.
func (st statement) postgresParts(n node, from []any) statement {
	st.table, st.alias = postgresTable(n.in("relation"))
	st.others = len(from) > 0
	st.sources = append([]source{{st.changed(), st.table}}, postgresSources(from)...)
	st.returned = pgParts(n.in("returningClause")["exprs"])
	st.returning = len(n.in("returningClause").list("exprs")) > 0
	st.reading = pgFields(n)
	return st
}

// postgresSources returns the tables and queries of a FROM.
func postgresSources(from []any) (all []source) {
	for _, v := range from {
		switch name, n := only(v); name {
		case "RangeVar":
			table, alias := postgresTable(n)
			if alias == "" {
				alias = table
			}
			all = append(all, source{alias, table})
		case "JoinExpr":
			all = append(all, postgresSources([]any{n["larg"], n["rarg"]})...)
		default:
			all = append(all, source{name: strings.ToLower(n.in("alias").text("aliasname"))})
		}
	}
	return all
}

func postgresSets(list []any) (sets []assignment) {
	for _, v := range list {
		_, t := only(v)
		value := t["val"]
		if name, m := only(value); name == "MultiAssignRef" { // (a, b) = (1, 2)
			n, _ := m["colno"].(float64)
			if row, r := only(m["source"]); row == "RowExpr" && int(n) >= 1 && int(n) <= len(r.list("args")) {
				value = r.list("args")[int(n)-1]
			} else {
				value = m["source"]
			}
		}
		set := pgExpr(value)
		for _, sub := range t.list("indirection") { // x[i] = …
			if parts := pgParts(sub); len(parts) > 0 {
				set = operation("element", append([]*expr{set}, parts...)...)
			}
		}
		sets = append(sets, assignment{column: strings.ToLower(t.text("name")), value: set})
	}
	return sets
}

func postgresTable(n node) (name, alias string) {
	return strings.ToLower(n.text("relname")), strings.ToLower(n.in("alias").text("aliasname"))
}
