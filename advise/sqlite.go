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
				out.Line, out.Column = position(text, e.Offset)
			}
			return nil, out
		}
		return nil, &SyntaxError{Message: err.Error()}
	}
	var all []statement
	for _, p := range parsed {
		st := sqliteStatement(p)
		st.at, st.end = start(text, p.Pos()), p.End()
		all = append(all, st)
	}
	return all, nil
}

func sqliteStatement(p ast.Stmt) statement {
	switch p := p.(type) {
	case *ast.SelectStmt:
		return statement{kind: reads, name: "SELECT", reading: sqliteParts(p)}
	case *ast.InsertStmt:
		return sqliteInsert(p)
	case *ast.UpdateStmt:
		st := statement{
			kind: updates, name: "UPDATE", table: sqliteTable(p.Table), alias: ident(p.Alias), where: sqliteExpr(p.Where),
			limited: p.Limit != nil, others: len(p.From) > 0, returning: len(p.Returning) > 0, sets: sqliteSets(p.Set), reading: sqliteChildren(p),
		}
		st.sources = append([]source{{st.changed(), st.table}}, sqliteSources(p.From)...)
		return st
	case *ast.DeleteStmt:
		return statement{
			kind: deletes, name: "DELETE", table: sqliteTable(p.Table), alias: ident(p.Alias), where: sqliteExpr(p.Where),
			limited: p.Limit != nil, returning: len(p.Returning) > 0, reading: sqliteChildren(p),
		}
	case *ast.CreateTableStmt:
		return sqliteCreate(p)
	case *ast.CreateIndexStmt:
		st := statement{kind: define(p.IfNotExists), name: "CREATE INDEX", table: ident(p.Table)}
		if p.Unique {
			u := unique{table: st.table, partial: p.Where != nil}
			u.columns, u.partial = sqliteTerms(p.Columns, u.partial)
			st.defined = []unique{u}
		}
		return st
	case *ast.CreateViewStmt:
		return statement{kind: define(p.IfNotExists), name: "CREATE VIEW"}
	case *ast.CreateTriggerStmt:
		return statement{kind: define(p.IfNotExists), name: "CREATE TRIGGER"}
	case *ast.CreateVirtualTableStmt:
		return statement{kind: define(p.IfNotExists), name: "CREATE VIRTUAL TABLE"}
	case *ast.DropTableStmt:
		return statement{kind: define(p.IfExists), name: "DROP TABLE"}
	case *ast.DropViewStmt:
		return statement{kind: define(p.IfExists), name: "DROP VIEW"}
	case *ast.DropIndexStmt:
		return statement{kind: define(p.IfExists), name: "DROP INDEX"}
	case *ast.DropTriggerStmt:
		return statement{kind: define(p.IfExists), name: "DROP TRIGGER"}
	case *ast.AlterTableStmt:
		return statement{kind: defines, name: "ALTER TABLE"}
	case *ast.CommitStmt:
		return statement{kind: ends, name: "COMMIT"}
	case *ast.ExplainStmt:
		return statement{kind: reads, name: "EXPLAIN"}
	case *ast.BeginStmt, *ast.RollbackStmt, *ast.SavepointStmt, *ast.ReleaseStmt, *ast.PragmaStmt, *ast.VacuumStmt, *ast.AnalyzeStmt, *ast.ReindexStmt,
		*ast.AttachStmt, *ast.DetachStmt:
		return statement{kind: settles, name: "A statement about the connection, a transaction or upkeep"}
	}
	return statement{kind: strange, name: "statement"}
}

// define returns the kind of a DDL statement. With IF [NOT] EXISTS it does nothing when it runs
// again.
func define(ifExists bool) kind {
	if ifExists {
		return settles
	}
	return defines
}

func sqliteInsert(p *ast.InsertStmt) statement {
	st := statement{kind: inserts, name: "INSERT", table: sqliteTable(p.Table), alias: ident(p.Alias), returning: len(p.Returning) > 0, reading: sqliteChildren(p)}
	for _, c := range p.Columns {
		st.columns = append(st.columns, ident(c))
	}
	switch {
	case p.Replace || p.OrConflict == ast.ConflictReplace:
		st.onConflict = overwrites
	case p.OrConflict == ast.ConflictIgnore:
		st.onConflict = ignores
	}
	for _, u := range p.Upserts {
		st.onConflict = ignores
		if !u.DoNothing {
			st.onConflict = changes
			st.sets = append(st.sets, sqliteSets(u.Set)...)
			st.setWhere = sqliteExpr(u.Where)
		}
		if len(u.Target) > 0 && u.TargetWhere == nil {
			if columns, odd := sqliteTerms(u.Target, false); !odd {
				st.target = columns
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
			if len(pair.Columns) > 1 && value.kind == list && i < len(value.args) {
				v = value.args[i]
			}
			sets = append(sets, assignment{column: ident(c), value: v})
		}
	}
	return sets
}

func sqliteCreate(p *ast.CreateTableStmt) statement {
	st := statement{kind: define(p.IfNotExists), name: "CREATE TABLE", table: sqliteTable(p.Name), definedTable: p.Select == nil, columns: []string{}, types: map[string]columnType{}}
	for _, c := range p.Columns {
		st.sqliteColumn(c)
	}
	for _, k := range p.Constraints {
		if k.Kind == ast.TablePrimaryKey || k.Kind == ast.TableUnique {
			u := unique{table: st.table, primary: k.Kind == ast.TablePrimaryKey}
			u.columns, u.partial = sqliteTerms(k.Columns, false)
			st.defined = append(st.defined, u)
		}
	}
	return st
}

// sqliteColumn adds a column to a table. SQLite stores what it is given, in whatever type.
func (st *statement) sqliteColumn(c *ast.ColumnDef) {
	name := ident(c.Name)
	st.columns = append(st.columns, name)
	if c.Type != nil {
		if st.types[name] = typeNamed(c.Type.Name, ""); st.types[name].class != numberClass && st.types[name].class != textClass {
			st.types[name] = columnType{}
		}
	}
	for _, k := range c.Constraints {
		switch k.Kind {
		case ast.ColumnPrimaryKey, ast.ColumnUnique:
			st.defined = append(st.defined, unique{table: st.table, columns: []string{name}, primary: k.Kind == ast.ColumnPrimaryKey})
			if k.Kind == ast.ColumnPrimaryKey && c.Type != nil && strings.EqualFold(c.Type.Name, "integer") {
				st.autoColumns = append(st.autoColumns, name)
			}
		case ast.ColumnGenerated:
			st.computed = append(st.computed, name)
		case ast.ColumnDefault:
			if e := sqliteExpr(k.Expr); !e.constant() {
				st.drawn = append(st.drawn, name)
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
		from := source{ident(r.Alias), ""}
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
		if e == nil || e.kind != column {
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
	return ident(q.Name)
}

func ident(i *ast.Ident) string {
	if i == nil {
		return ""
	}
	return strings.ToLower(i.Name)
}
