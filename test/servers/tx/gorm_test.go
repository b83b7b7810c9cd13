package tx_test

import (
	"context"
	"errors"
	"testing"

	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// gormOrder is a row of orders.
type gormOrder struct {
	ID       int64
	Customer string
}

func (gormOrder) TableName() string { return "orders" }

// TestGORM: the record is a part of a GORM transaction, as docs/stores.md shows.
func TestGORM(t *testing.T) {
	t.Parallel()
	shops.EachKindOfServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		if server.Driver != "mysql" {
			return // GORM's other drivers do not differ in what is used here
		}
		s := server.Shop(t)
		db, err := gorm.Open(gormmysql.New(gormmysql.Config{Conn: s.DB}), &gorm.Config{Logger: logger.Discard})
		assert.NoError(t, err, "gorm.Open")
		order := func(customer string, result error) (res retrysafe.Result[int64], err error) {
			err = db.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
				in := s.Store.InTx(dbtx.SQL(tx.Statement.ConnPool, dbtx.MySQL))
				res, err = retrysafe.DoTx(t.Context(), s.Engine, in, teststores.OrderKey(customer), func(ctx context.Context, _ dbtx.Tx) (int64, error) {
					o := gormOrder{Customer: customer}
					err := tx.WithContext(ctx).Create(&o).Error
					return o.ID, errors.Join(err, result)
				})
				return err
			})
			return res, err
		}
		first, err := order("ada", nil)
		assert.NoError(t, err, "the first")
		again, err := order("ada", nil)
		assert.NoError(t, err, "a repeat")
		assert.True(t, again.Replayed && again.Value == first.Value, "a repeat: %+v", again)
		s.WantOnce(t, "ada", "GORM")
		refused := errors.New("out of stock")
		_, err = order("bob", refused)
		assert.ErrorIs(t, err, refused, "work that fails")
		s.WantNothing(t, "bob", "an error")
	})
}
