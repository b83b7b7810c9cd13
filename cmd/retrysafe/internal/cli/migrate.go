package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/sqlstore"
)

func migrateCommand() *cobra.Command {
	var store string
	var show bool
	c := &cobra.Command{
		Use: "migrate", Args: cobra.NoArgs,
		Short: "Make the tables of a SQL store, or bring them up to date",
		Long: "migrate makes the tables of a SQL store, or brings them up to date. A gateway does so when it starts, unless its user may not:\n" +
			"then let the owner of the database run this once, or the SQL that --print shows, before the first gateway of a new version starts.\n" +
			"With --print nothing is connected to and nothing is changed.",
		RunE: func(c *cobra.Command, _ []string) error {
			n, err := parseStore(store)
			switch {
			case err != nil:
				return &usageError{err}
			case !n.tables():
				return &usageError{errors.New("--store: only sqlite:PATH, postgres://HOST/DATABASE and mysql://HOST/DATABASE have tables")}
			case show:
				return printSchema(c.OutOrStdout(), n)
			}
			_, closeStore, err := openStore(c.Context(), store, logger(c.ErrOrStderr()), toServe, storeSettings{})
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is up to date\n", n)
			return closeStore()
		},
	}
	c.Flags().StringVar(&store, "store", "sqlite:retrysafe.db", "the store: sqlite:PATH, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	c.Flags().BoolVar(&show, "print", false, "show the SQL that makes the tables where there are none, and do nothing")
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
