package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

func migrateCommand() *cobra.Command {
	var store string
	var show bool
	c := &cobra.Command{
		Use: "migrate", Args: cobra.NoArgs,
		Short: "Create or update the tables of a SQL store",
		Long: "migrate creates or updates the tables of a SQL store. A gateway does this when it starts. If its database user is not\n" +
			"allowed to, the owner of the database runs migrate, or the SQL of --print, before the first gateway of a new version\n" +
			"starts. --print connects to nothing and changes nothing.",
		RunE: func(c *cobra.Command, _ []string) error {
			n, err := parseStore(store)
			switch {
			case err != nil:
				return &usageError{err}
			case !n.hasTables():
				return &usageError{errors.New("--store: only sqlite:PATH, postgres://HOST/DATABASE and mysql://HOST/DATABASE have tables")}
			case show:
				return printSchema(c.OutOrStdout(), n)
			}
			_, closeStore, err := openStore(c.Context(), store, newLogger(c.ErrOrStderr()), toServe, storeSettings{})
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is up to date\n", n)
			return closeStore()
		},
	}
	c.Flags().StringVar(&store, "store", "sqlite:retrysafe.db", "the store: sqlite:PATH, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	c.Flags().BoolVar(&show, "print", false, "print the SQL that creates the tables, and exit")
	return c
}

func printSchema(w io.Writer, n storeName) error {
	d := sqlstore.SQLite
	switch {
	case n.postgres != nil:
		d = sqlstore.PostgreSQL
	case n.mysql != nil:
		d = sqlstore.MySQL
	}
	_, err := io.WriteString(w, sqlstore.SchemaSQL(d))
	return err
}
