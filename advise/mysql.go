package advise

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/sqlc-dev/marino/ast"
	"github.com/sqlc-dev/marino/parser"
)

// parseMySQL parses text as MySQL 8, in the default sql_mode.
func parseMySQL(text string) ([]statement, error) {
	p := parser.New()
	p.SetMariaDB(true)
	parsed, _, err := p.Parse(text, "", "")
	if err != nil {
		return nil, mysqlError(err)
	}
	var all []statement
	at := 0
	for _, n := range parsed {
		st := mysqlStatement(n)
		own := n.OriginalText()
		if i := strings.Index(text[at:], own); own != "" && i >= 0 {
			at += i
		}
		st.at, st.end = skipBlanks(text, at), min(len(text), at+len(own))
		at = st.end
		all = append(all, st)
	}
	return all, nil
}

var mysqlErrorPlace = regexp.MustCompile(`(?s)^line (\d+) column (\d+) near "(.*?)"[^"]*$`)

func mysqlError(err error) error {
	m := mysqlErrorPlace.FindStringSubmatch(err.Error())
	if m == nil {
		return &SyntaxError{Message: err.Error()}
	}
	line, _ := strconv.Atoi(m[1])
	col, _ := strconv.Atoi(m[2])
	near, _, _ := strings.Cut(strings.TrimSpace(m[3]), "\n")
	if r := []rune(near); len(r) > 40 {
		near = string(r[:40]) + "…"
	}
	if near == "" {
		return &SyntaxError{Line: line, Column: col, Message: "the text ends too early"}
	}
	return &SyntaxError{Line: line, Column: col, Message: "it stops making sense at: " + near}
}

func mysqlStatement(n ast.StmtNode) statement {
	switch n := n.(type) {
	case *ast.SelectStmt:
		st := statement{kind: kindRead, name: "SELECT", allExprs: mysqlChildren(n)}
		st.locks = n.LockInfo != nil && n.LockInfo.LockType != ast.SelectLockNone
		if n.SelectIntoOpt != nil && n.SelectIntoOpt.Tp != ast.SelectIntoVars {
			return statement{kind: kindLoad, name: "SELECT INTO OUTFILE"}
		}
		return st
	case *ast.SetOprStmt:
		return statement{kind: kindRead, name: "SELECT", allExprs: mysqlChildren(n)}
	case *ast.ShowStmt, *ast.HelpStmt, *ast.HandlerOpenStmt, *ast.HandlerReadStmt, *ast.HandlerCloseStmt, *ast.ExplainForStmt, *ast.CheckTableStmt, *ast.ChecksumTableStmt:
		return statement{kind: kindRead, name: "SHOW"}
	case *ast.ExplainStmt:
		st := statement{kind: kindRead, name: "EXPLAIN"}
		if n.Analyze && n.Stmt != nil {
			st.inner = []statement{mysqlStatement(n.Stmt)}
		}
		return st
	case *ast.InsertStmt:
		return mysqlInsert(n)
	case *ast.UpdateStmt:
		st := statement{kind: kindUpdate, name: "UPDATE", where: mysqlExpr(n.Where), limited: n.Limit != nil, sets: mysqlSets(n.List), allExprs: mysqlChildren(n)}
		return st.withMySQLTables(n.TableRefs)
	case *ast.DeleteStmt:
		st := statement{kind: kindDelete, name: "DELETE", where: mysqlExpr(n.Where), limited: n.Limit != nil, allExprs: mysqlChildren(n)}
		return st.withMySQLTables(n.TableRefs)
	case *ast.CallStmt:
		return statement{kind: kindCall, name: "CALL"}
	case *ast.ExecuteStmt:
		return statement{kind: kindCall, name: "EXECUTE"}
	case *ast.PrepareStmt:
		return statement{kind: kindIdempotent, name: "PREPARE"}
	case *ast.DoStmt:
		return statement{kind: kindRead, name: "DO", allExprs: mysqlChildren(n)}
	case *ast.LoadDataStmt, *ast.LoadXMLStmt, *ast.ImportIntoStmt, *ast.ImportTableStmt:
		return statement{kind: kindLoad, name: "LOAD DATA"}
	case *ast.CommitStmt:
		return statement{kind: kindCommit, name: "COMMIT"}
	case *ast.SetStmt:
		return statement{kind: kindIdempotent, name: "SET", allExprs: mysqlChildren(n)}
	case *ast.BeginStmt, *ast.RollbackStmt, *ast.SavepointStmt, *ast.ReleaseSavepointStmt, *ast.UseStmt, *ast.SetRoleStmt, *ast.LockTablesStmt,
		*ast.UnlockTablesStmt, *ast.DeallocateStmt, *ast.GrantStmt, *ast.RevokeStmt, *ast.GrantRoleStmt, *ast.RevokeRoleStmt, *ast.AnalyzeTableStmt,
		*ast.OptimizeTableStmt, *ast.FlushStmt, *ast.SetPwdStmt, *ast.SetDefaultRoleStmt:
		return statement{kind: kindIdempotent, name: "A statement about the session, a transaction, rights or upkeep"}
	}
	return mysqlDefinition(n)
}

func mysqlInsert(n *ast.InsertStmt) statement {
	st := statement{kind: kindInsert, name: "INSERT", fromQuery: n.Select != nil, sets: mysqlSets(n.OnDuplicate), allExprs: mysqlChildren(n)}
	st = st.withMySQLTables(n.Table)
	for _, c := range n.Columns {
		st.columns = append(st.columns, c.Name.L)
	}
	for _, row := range n.Lists {
		st.rows = append(st.rows, mysqlList(row))
	}
	switch {
	case n.IsReplace:
		st.onConflict = conflictReplace
	case len(n.OnDuplicate) > 0:
		st.onConflict = conflictUpdate
	case n.IgnoreErr:
		st.onConflict = conflictIgnore
	}
	if n.RowAlias != nil { // INSERT … AS new: new.x is what was offered
		for _, s := range st.sets {
			s.value.walk(func(e *expr) {
				if e.kind == columnExpr && e.table == n.RowAlias.L {
					e.kind = offeredExpr
				}
			})
		}
	}
	return st
}

func mysqlSets(list []*ast.Assignment) (sets []assignment) {
	for _, a := range list {
		sets = append(sets, assignment{a.Column.Name.L, a.Column.Table.L, mysqlExpr(a.Expr)})
	}
	return sets
}

// withMySQLTables adds the tables of a clause. The first is the one that is changed, unless columns
// of others are set.
func (st statement) withMySQLTables(refs *ast.TableRefsClause) statement {
	if refs == nil || refs.TableRefs == nil {
		return st
	}
	st.sources = mysqlSources(refs.TableRefs)
	st.otherTables = len(st.sources) > 1
	if len(st.sources) > 0 {
		st.table = st.sources[0].table
		if st.sources[0].name != st.table {
			st.alias = st.sources[0].name
		}
	}
	return st
}

// mysqlSources returns the tables and queries of a join.
func mysqlSources(n ast.ResultSetNode) []source {
	switch n := n.(type) {
	case *ast.Join:
		if n == nil {
			return nil
		}
		all := mysqlSources(n.Left)
		if n.Right != nil {
			all = append(all, mysqlSources(n.Right)...)
		}
		return all
	case *ast.TableSource:
		name := n.AsName.L
		t, ok := n.Source.(*ast.TableName)
		if !ok {
			if j, ok := n.Source.(*ast.Join); ok {
				return mysqlSources(j)
			}
			return []source{{name: name}}
		}
		if name == "" {
			name = t.Name.L
		}
		return []source{{name, t.Name.L}}
	case *ast.TableName:
		return []source{{n.Name.L, n.Name.L}}
	}
	return nil
}
