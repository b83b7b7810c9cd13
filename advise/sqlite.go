package advise

import (
	"errors"
	"strings"

	"github.com/sqlc-dev/meyer/ast"
	"github.com/sqlc-dev/meyer/parser"
)

// parseSQLite parses text with SQLite's grammar, including ORDER BY and LIMIT on UPDATE and DELETE,
// which some builds support.
func parseSQLite(text string) ([]statement, error) {
	parsed, err := parser.Options{UpdateDeleteLimit: true}.ParseString(text)
	if err != nil {
		if e, ok := errors.AsType[*parser.Error](err); ok {
			out := &SyntaxError{Message: e.Message}
			if e.Offset >= 0 {
				out.Line, out.Column = lineAndColumn(text, e.Offset)
			}
			return nil, out
		}
		return nil, &SyntaxError{Message: err.Error()}
	}
	var all []statement
	for _, p := range parsed {
		st := sqliteStatement(p)
		st.at, st.end = skipBlanks(text, p.Pos()), p.End()
		all = append(all, st)
	}
	return all, nil
}

func sqliteStatement(p ast.Stmt) statement {
	switch p := p.(type) {
	case *ast.SelectStmt:
		return statement{kind: kindRead, name: "SELECT", allExprs: sqliteParts(p)}
	case *ast.InsertStmt:
		return sqliteInsert(p)
	case *ast.UpdateStmt:
		st := statement{
			kind: kindUpdate, name: "UPDATE", table: sqliteTable(p.Table), alias: identName(p.Alias), where: sqliteExpr(p.Where),
			limited: p.Limit != nil, otherTables: len(p.From) > 0, returning: len(p.Returning) > 0, sets: sqliteSets(p.Set), allExprs: sqliteChildren(p),
		}
		st.sources = append([]source{{st.changedName(), st.table}}, sqliteSources(p.From)...)
		return st
	case *ast.DeleteStmt:
		return statement{
			kind: kindDelete, name: "DELETE", table: sqliteTable(p.Table), alias: identName(p.Alias), where: sqliteExpr(p.Where),
			limited: p.Limit != nil, returning: len(p.Returning) > 0, allExprs: sqliteChildren(p),
		}
	case *ast.CreateTableStmt:
		return sqliteCreate(p)
	case *ast.CreateIndexStmt:
		st := statement{kind: ddlKind(p.IfNotExists), name: "CREATE INDEX", table: identName(p.Table)}
		if p.Unique {
			u := uniqueIndex{table: st.table, partial: p.Where != nil}
			u.columns, u.partial = sqliteTerms(p.Columns, u.partial)
			st.uniqueIndexes = []uniqueIndex{u}
		}
		return st
	case *ast.CreateViewStmt:
		return statement{kind: ddlKind(p.IfNotExists), name: "CREATE VIEW"}
	case *ast.CreateTriggerStmt:
		return statement{kind: ddlKind(p.IfNotExists), name: "CREATE TRIGGER"}
	case *ast.CreateVirtualTableStmt:
		return statement{kind: ddlKind(p.IfNotExists), name: "CREATE VIRTUAL TABLE"}
	case *ast.DropTableStmt:
		return statement{kind: ddlKind(p.IfExists), name: "DROP TABLE"}
	case *ast.DropViewStmt:
		return statement{kind: ddlKind(p.IfExists), name: "DROP VIEW"}
	case *ast.DropIndexStmt:
		return statement{kind: ddlKind(p.IfExists), name: "DROP INDEX"}
	case *ast.DropTriggerStmt:
		return statement{kind: ddlKind(p.IfExists), name: "DROP TRIGGER"}
	case *ast.AlterTableStmt:
		return statement{kind: kindDefine, name: "ALTER TABLE"}
	case *ast.CommitStmt:
		return statement{kind: kindCommit, name: "COMMIT"}
	case *ast.ExplainStmt:
		return statement{kind: kindRead, name: "EXPLAIN"}
	case *ast.BeginStmt, *ast.RollbackStmt, *ast.SavepointStmt, *ast.ReleaseStmt, *ast.PragmaStmt, *ast.VacuumStmt, *ast.AnalyzeStmt, *ast.ReindexStmt,
		*ast.AttachStmt, *ast.DetachStmt:
		return statement{kind: kindIdempotent, name: "A statement about the connection, a transaction or upkeep"}
	}
	return statement{kind: kindUnknown, name: "statement"}
}

// ddlKind returns the kind of a DDL statement. With IF [NOT] EXISTS it does nothing when it runs
// again.
func ddlKind(ifExists bool) statementKind {
	if ifExists {
		return kindIdempotent
	}
	return kindDefine
}

func sqliteInsert(p *ast.InsertStmt) statement {
	st := statement{kind: kindInsert, name: "INSERT", table: sqliteTable(p.Table), alias: identName(p.Alias), returning: len(p.Returning) > 0, allExprs: sqliteChildren(p)}
	for _, c := range p.Columns {
		st.columns = append(st.columns, identName(c))
	}
	switch {
	case p.Replace || p.OrConflict == ast.ConflictReplace:
		st.onConflict = conflictReplace
	case p.OrConflict == ast.ConflictIgnore:
		st.onConflict = conflictIgnore
	}
	for _, u := range p.Upserts {
		st.onConflict = conflictIgnore
		if !u.DoNothing {
			st.onConflict = conflictUpdate
			st.sets = append(st.sets, sqliteSets(u.Set)...)
			st.setWhere = sqliteExpr(u.Where)
		}
		if len(u.Target) > 0 && u.TargetWhere == nil {
			if columns, odd := sqliteTerms(u.Target, false); !odd {
				st.conflictTarget = columns
			}
		}
	}
	if p.Select == nil {
		return st
	}
	if len(p.Select.Cores) == 1 {
		if v, ok := p.Select.Cores[0].(*ast.ValuesClause); ok {
			for _, row := range v.Rows {
				st.rows = append(st.rows, sqliteList(row))
			}
			return st
		}
	}
	st.fromQuery = true
	return st
}

func sqliteSets(pairs []*ast.SetPair) (sets []assignment) {
	for _, pair := range pairs {
		value := sqliteExpr(pair.Value)
		for i, c := range pair.Columns {
			v := value
			if len(pair.Columns) > 1 && value.kind == listExpr && i < len(value.args) {
				v = value.args[i]
			}
			sets = append(sets, assignment{column: identName(c), value: v})
		}
	}
	return sets
}

func sqliteCreate(p *ast.CreateTableStmt) statement {
	st := statement{kind: ddlKind(p.IfNotExists), name: "CREATE TABLE", table: sqliteTable(p.Name), definedTable: p.Select == nil, columns: []string{}, types: map[string]columnType{}}
	for _, c := range p.Columns {
		st.addSQLiteColumn(c)
	}
	for _, k := range p.Constraints {
		if k.Kind == ast.TablePrimaryKey || k.Kind == ast.TableUnique {
			u := uniqueIndex{table: st.table, primary: k.Kind == ast.TablePrimaryKey}
			u.columns, u.partial = sqliteTerms(k.Columns, false)
			st.uniqueIndexes = append(st.uniqueIndexes, u)
		}
	}
	return st
}

// addSQLiteColumn adds a column to a table. SQLite stores what it is given, in whatever type.
func (st *statement) addSQLiteColumn(c *ast.ColumnDef) {
	name := identName(c.Name)
	st.columns = append(st.columns, name)
	if c.Type != nil {
		if st.types[name] = typeByName(c.Type.Name, ""); st.types[name].class != numberClass && st.types[name].class != textClass {
			st.types[name] = columnType{}
		}
	}
	for _, k := range c.Constraints {
		switch k.Kind {
		case ast.ColumnPrimaryKey, ast.ColumnUnique:
			st.uniqueIndexes = append(st.uniqueIndexes, uniqueIndex{table: st.table, columns: []string{name}, primary: k.Kind == ast.ColumnPrimaryKey})
			if k.Kind == ast.ColumnPrimaryKey && c.Type != nil && strings.EqualFold(c.Type.Name, "integer") {
				st.autoColumns = append(st.autoColumns, name)
			}
		case ast.ColumnGenerated:
			st.computed = append(st.computed, name)
		case ast.ColumnDefault:
			if e := sqliteExpr(k.Expr); !e.isConstant() {
				st.varyingDefaults = append(st.varyingDefaults, name)
			}
		}
	}
}

// sqliteSources returns the tables and queries of a FROM.
func sqliteSources(refs []*ast.TableRef) (all []source) {
	for _, r := range refs {
		if len(r.List) > 0 {
			all = append(all, sqliteSources(r.List)...)
			continue
		}
		from := source{identName(r.Alias), ""}
		if r.Name != nil && !r.HasArgs {
			from.table = sqliteTable(r.Name)
		}
		if from.name == "" {
			from.name = from.table
		}
		all = append(all, from)
	}
	return all
}

// sqliteTerms returns the columns of an index. isOdd is true if one is an expression, or if odd is.
func sqliteTerms(terms []*ast.OrderingTerm, odd bool) (columns []string, isOdd bool) {
	for _, t := range terms {
		e := sqliteExpr(t.Expr)
		if e == nil || e.kind != columnExpr {
			odd = true
			continue
		}
		columns = append(columns, e.name)
	}
	return columns, odd
}

func sqliteTable(q *ast.QualifiedName) string {
	if q == nil {
		return ""
	}
	return identName(q.Name)
}

func identName(i *ast.Ident) string {
	if i == nil {
		return ""
	}
	return strings.ToLower(i.Name)
}
