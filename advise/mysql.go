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
		st.at, st.end = start(text, at), min(len(text), at+len(own))
		at = st.end
		all = append(all, st)
	}
	return all, nil
}

var mysqlAt = regexp.MustCompile(`(?s)^line (\d+) column (\d+) near "(.*?)"[^"]*$`)

func mysqlError(err error) error {
	m := mysqlAt.FindStringSubmatch(err.Error())
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
		st := statement{kind: reads, name: "SELECT", reading: mysqlChildren(n)}
		st.locks = n.LockInfo != nil && n.LockInfo.LockType != ast.SelectLockNone
		if n.SelectIntoOpt != nil && n.SelectIntoOpt.Tp != ast.SelectIntoVars {
			return statement{kind: loads, name: "SELECT INTO OUTFILE"}
		}
		return st
	case *ast.SetOprStmt:
		return statement{kind: reads, name: "SELECT", reading: mysqlChildren(n)}
	case *ast.ShowStmt, *ast.HelpStmt, *ast.HandlerOpenStmt, *ast.HandlerReadStmt, *ast.HandlerCloseStmt, *ast.ExplainForStmt, *ast.CheckTableStmt, *ast.ChecksumTableStmt:
		return statement{kind: reads, name: "SHOW"}
	case *ast.ExplainStmt:
		st := statement{kind: reads, name: "EXPLAIN"}
		if n.Analyze && n.Stmt != nil {
			st.inner = []statement{mysqlStatement(n.Stmt)}
		}
		return st
	case *ast.InsertStmt:
		return mysqlInsert(n)
	case *ast.UpdateStmt:
		st := statement{kind: updates, name: "UPDATE", where: mysqlExpr(n.Where), limited: n.Limit != nil, others: n.MultipleTable}
		st.table, st.alias = mysqlTable(n.TableRefs)
		st.sets = mysqlSets(n.List)
		return st
	case *ast.DeleteStmt:
		st := statement{kind: deletes, name: "DELETE", where: mysqlExpr(n.Where), limited: n.Limit != nil, others: n.IsMultiTable}
		st.table, st.alias = mysqlTable(n.TableRefs)
		return st
	case *ast.CallStmt:
		return statement{kind: runs, name: "CALL"}
	case *ast.ExecuteStmt:
		return statement{kind: runs, name: "EXECUTE"}
	case *ast.PrepareStmt:
		return statement{kind: settles, name: "PREPARE"}
	case *ast.DoStmt:
		return statement{kind: reads, name: "DO", reading: mysqlChildren(n)}
	case *ast.LoadDataStmt, *ast.LoadXMLStmt, *ast.ImportIntoStmt, *ast.ImportTableStmt:
		return statement{kind: loads, name: "LOAD DATA"}
	case *ast.CommitStmt:
		return statement{kind: ends, name: "COMMIT"}
	case *ast.BeginStmt, *ast.RollbackStmt, *ast.SavepointStmt, *ast.ReleaseSavepointStmt, *ast.UseStmt, *ast.SetStmt, *ast.SetRoleStmt, *ast.LockTablesStmt,
		*ast.UnlockTablesStmt, *ast.DeallocateStmt, *ast.GrantStmt, *ast.RevokeStmt, *ast.GrantRoleStmt, *ast.RevokeRoleStmt, *ast.AnalyzeTableStmt,
		*ast.OptimizeTableStmt, *ast.FlushStmt, *ast.SetPwdStmt, *ast.SetDefaultRoleStmt:
		return statement{kind: settles, name: "A statement about the session, a transaction, rights or upkeep"}
	}
	return mysqlDefinition(n)
}

func mysqlInsert(n *ast.InsertStmt) statement {
	st := statement{kind: inserts, name: "INSERT", fromQuery: n.Select != nil, sets: mysqlSets(n.OnDuplicate)}
	st.table, st.alias = mysqlTable(n.Table)
	for _, c := range n.Columns {
		st.columns = append(st.columns, c.Name.L)
	}
	for _, row := range n.Lists {
		st.rows = append(st.rows, mysqlList(row))
	}
	switch {
	case n.IsReplace:
		st.onConflict = overwrites
	case len(n.OnDuplicate) > 0:
		st.onConflict = changes
	case n.IgnoreErr:
		st.onConflict = ignores
	}
	if n.RowAlias != nil { // INSERT … AS new: new.x is what was offered
		for _, s := range st.sets {
			s.value.walk(func(e *expr) {
				if e.kind == column && e.table == n.RowAlias.L {
					e.kind = offered
				}
			})
		}
	}
	return st
}

func mysqlSets(list []*ast.Assignment) (sets []assignment) {
	for _, a := range list {
		sets = append(sets, assignment{a.Column.Name.L, mysqlExpr(a.Expr)})
	}
	return sets
}

// mysqlTable returns the first table of a clause.
func mysqlTable(refs *ast.TableRefsClause) (name, alias string) {
	if refs == nil || refs.TableRefs == nil {
		return "", ""
	}
	var node ast.ResultSetNode = refs.TableRefs
	for {
		switch n := node.(type) {
		case *ast.Join:
			node = n.Left
		case *ast.TableSource:
			alias = n.AsName.L
			node = n.Source
		case *ast.TableName:
			return n.Name.L, alias
		default:
			return "", alias
		}
	}
}
