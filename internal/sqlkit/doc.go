// Package sqlkit is what the packages that keep tables through database/sql share: the differences
// between the kinds of database, names of tables, classes of errors, repeated tries, migrations and
// warnings about settings that can lose a commit. It imports no driver.
package sqlkit
