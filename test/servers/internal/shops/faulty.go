package shops

import (
	"context"
	"database/sql"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// Faulty returns a shop whose driver fails on demand.
func Faulty(t *testing.T, o *sqlstore.Options) (s *Shop, set func(sqltest.Fault)) {
	t.Helper()
	db, set := sqltest.OpenFaulty(t, sqltest.SQLiteDSN(sqltest.NewFile(t)))
	return New(t, db, o), set
}

// FaultyShop returns a process whose driver calls the current fault. set sets it.
func (s Database) FaultyShop() (shop *Shop, set func(sqltest.Fault), err error) {
	inner, err := sql.Open(s.Driver, s.DSN)
	if err != nil {
		return nil, nil, err
	}
	db, set := sqltest.FaultyDB(inner.Driver(), s.DSN)
	db.SetMaxIdleConns(16)
	return s.newFaultyShop(db, set)
}

func (s Database) newFaultyShop(db *sql.DB, set func(sqltest.Fault)) (*Shop, func(sqltest.Fault), error) {
	store, err := sqlstore.New(db, s.Dialect, nil)
	if err != nil {
		return nil, nil, err
	}
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "app", Secret: []byte("0123456789abcdef"), Sweep: -1})
	return &Shop{Store: store, Engine: engine, DB: db}, set, nil
}

// Steps returns the statements of an order, as its driver sees them.
func (s Database) Steps(t *testing.T, order func(*Shop, context.Context, string) error) (all []string) {
	t.Helper()
	shop, set, err := s.FaultyShop()
	assert.NoError(t, err, "a shop")
	defer shop.DB.Close()
	set(func(step string, run func() error) error {
		all = append(all, step)
		return run()
	})
	assert.NoError(t, order(shop, t.Context(), "steps"), "an order")
	return all
}
