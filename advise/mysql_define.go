package advise

import (
	"regexp"
	"strings"

	"github.com/sqlc-dev/marino/ast"
)

// mysqlDefinition converts DDL, and all other statements.
func mysqlDefinition(n ast.StmtNode) statement {
	switch n := n.(type) {
	case *ast.CreateTableStmt:
		return mysqlCreate(n)
	case *ast.CreateIndexStmt:
		st := statement{kind: ddlKind(n.IfNotExists), name: "CREATE INDEX", table: n.Table.Name.L}
		if n.KeyType == ast.IndexKeyTypeUnique {
			st.uniqueIndexes = []uniqueIndex{mysqlUnique(st.table, n.IndexPartSpecifications, false)}
		}
		return st
	case *ast.AlterTableStmt:
		st := statement{kind: kindDefine, name: "ALTER TABLE", table: n.Table.Name.L}
		for _, spec := range n.Specs {
			st.uniqueIndexes = append(st.uniqueIndexes, mysqlConstraints(st.table, spec.Constraint)...)
			st.uniqueIndexes = append(st.uniqueIndexes, mysqlConstraints(st.table, spec.NewConstraints...)...)
		}
		return st
	case *ast.TruncateTableStmt:
		return statement{kind: kindTruncate, name: "TRUNCATE"}
	case *ast.DropTableStmt:
		return statement{kind: ddlKind(n.IfExists), name: "DROP TABLE"}
	case *ast.CreateDatabaseStmt:
		return statement{kind: ddlKind(n.IfNotExists), name: "CREATE DATABASE"}
	case *ast.DropDatabaseStmt:
		return statement{kind: ddlKind(n.IfExists), name: "DROP DATABASE"}
	case *ast.DropIndexStmt:
		return statement{kind: ddlKind(n.IfExists), name: "DROP INDEX"}
	case *ast.CreateViewStmt:
		return statement{kind: ddlKind(n.OrReplace), name: "CREATE VIEW"}
	case *ast.CreateUserStmt:
		return statement{kind: ddlKind(n.IfNotExists), name: "CREATE USER"}
	case *ast.DropUserStmt:
		return statement{kind: ddlKind(n.IfExists), name: "DROP USER"}
	case ast.DDLNode:
		return statement{kind: kindDefine, name: "DDL statement"}
	}
	return statement{kind: kindUnknown, name: "statement"}
}

func mysqlCreate(n *ast.CreateTableStmt) statement {
	st := statement{
		kind: ddlKind(n.IfNotExists), name: "CREATE TABLE", table: n.Table.Name.L,
		definedTable: n.Select == nil && n.ReferTable == nil, columns: []string{}, types: map[string]columnType{},
	}
	for _, c := range n.Cols {
		st.addMySQLColumn(c)
	}
	st.uniqueIndexes = append(st.uniqueIndexes, mysqlConstraints(st.table, n.Constraints...)...)
	return st
}

var mysqlPrecision = regexp.MustCompile(`\((\d+)\)`)

// addMySQLColumn adds a column to a table.
func (st *statement) addMySQLColumn(c *ast.ColumnDef) {
	name := c.Name.Name.L
	st.columns = append(st.columns, name)
	isClock := false
	if c.Tp != nil {
		precision := ""
		if m := mysqlPrecision.FindStringSubmatch(c.Tp.String()); m != nil {
			precision = m[1]
		}
		st.types[name] = typeByName(c.Tp.String(), precision)
		isClock = strings.HasPrefix(strings.ToLower(c.Tp.String()), "timestamp")
	}
	for _, o := range c.Options {
		switch o.Tp {
		case ast.ColumnOptionPrimaryKey, ast.ColumnOptionUniqKey:
			st.uniqueIndexes = append(st.uniqueIndexes, uniqueIndex{table: st.table, columns: []string{name}, primary: o.Tp == ast.ColumnOptionPrimaryKey})
		case ast.ColumnOptionAutoIncrement:
			st.autoColumns = append(st.autoColumns, name)
		case ast.ColumnOptionOnUpdate, ast.ColumnOptionGenerated:
			st.computed = append(st.computed, name)
		case ast.ColumnOptionDefaultValue:
			isClock = false
			if !mysqlExpr(o.Expr).isConstant() {
				st.varyingDefaults = append(st.varyingDefaults, name)
			}
		}
	}
	if isClock { // the first TIMESTAMP follows the clock unless it says otherwise
		st.varyingDefaults, st.computed = append(st.varyingDefaults, name), append(st.computed, name)
	}
}

func mysqlConstraints(table string, all ...*ast.Constraint) (found []uniqueIndex) {
	for _, c := range all {
		if c == nil {
			continue
		}
		switch c.Tp {
		case ast.ConstraintPrimaryKey:
			found = append(found, mysqlUnique(table, c.Keys, true))
		case ast.ConstraintUniq, ast.ConstraintUniqKey, ast.ConstraintUniqIndex:
			found = append(found, mysqlUnique(table, c.Keys, false))
		}
	}
	return found
}

func mysqlUnique(table string, keys []*ast.IndexPartSpecification, primary bool) uniqueIndex {
	u := uniqueIndex{table: table, primary: primary}
	for _, k := range keys {
		if k.Column == nil {
			u.partial = true
			continue
		}
		u.columns = append(u.columns, k.Column.Name.L)
	}
	return u
}
