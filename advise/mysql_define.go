package advise

import "github.com/sqlc-dev/marino/ast"

// mysqlDefinition converts DDL, and all other statements.
func mysqlDefinition(n ast.StmtNode) statement {
	switch n := n.(type) {
	case *ast.CreateTableStmt:
		return mysqlCreate(n)
	case *ast.CreateIndexStmt:
		st := statement{kind: define(n.IfNotExists), name: "CREATE INDEX", table: n.Table.Name.L}
		if n.KeyType == ast.IndexKeyTypeUnique {
			st.defined = []unique{mysqlUnique(st.table, n.IndexPartSpecifications, false)}
		}
		return st
	case *ast.AlterTableStmt:
		st := statement{kind: defines, name: "ALTER TABLE", table: n.Table.Name.L}
		for _, spec := range n.Specs {
			st.defined = append(st.defined, mysqlConstraints(st.table, spec.Constraint)...)
			st.defined = append(st.defined, mysqlConstraints(st.table, spec.NewConstraints...)...)
		}
		return st
	case *ast.TruncateTableStmt:
		return statement{kind: empties, name: "TRUNCATE"}
	case *ast.DropTableStmt:
		return statement{kind: define(n.IfExists), name: "DROP TABLE"}
	case *ast.CreateDatabaseStmt:
		return statement{kind: define(n.IfNotExists), name: "CREATE DATABASE"}
	case *ast.DropDatabaseStmt:
		return statement{kind: define(n.IfExists), name: "DROP DATABASE"}
	case *ast.DropIndexStmt:
		return statement{kind: define(n.IfExists), name: "DROP INDEX"}
	case *ast.CreateViewStmt:
		return statement{kind: define(n.OrReplace), name: "CREATE VIEW"}
	case *ast.CreateUserStmt:
		return statement{kind: define(n.IfNotExists), name: "CREATE USER"}
	case *ast.DropUserStmt:
		return statement{kind: define(n.IfExists), name: "DROP USER"}
	case ast.DDLNode:
		return statement{kind: defines, name: "DDL statement"}
	}
	return statement{kind: strange, name: "statement"}
}

func mysqlCreate(n *ast.CreateTableStmt) statement {
	st := statement{
		kind: define(n.IfNotExists), name: "CREATE TABLE", table: n.Table.Name.L,
		definedTable: n.Select == nil && n.ReferTable == nil, columns: []string{},
	}
	for _, c := range n.Cols {
		name := c.Name.Name.L
		st.columns = append(st.columns, name)
		for _, o := range c.Options {
			if o.Tp == ast.ColumnOptionPrimaryKey || o.Tp == ast.ColumnOptionUniqKey {
				st.defined = append(st.defined, unique{table: st.table, columns: []string{name}, primary: o.Tp == ast.ColumnOptionPrimaryKey})
			}
			if o.Tp == ast.ColumnOptionAutoIncrement {
				st.autoColumns = append(st.autoColumns, name)
			}
		}
	}
	st.defined = append(st.defined, mysqlConstraints(st.table, n.Constraints...)...)
	return st
}

func mysqlConstraints(table string, all ...*ast.Constraint) (found []unique) {
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

func mysqlUnique(table string, keys []*ast.IndexPartSpecification, primary bool) unique {
	u := unique{table: table, primary: primary}
	for _, k := range keys {
		if k.Column == nil {
			u.partial = true
			continue
		}
		u.columns = append(u.columns, k.Column.Name.L)
	}
	return u
}
