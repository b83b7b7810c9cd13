package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"
	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/ginidem"
	"github.com/retrysafe/retrysafe/adapters/goredisclient"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/redisstore"
)

type config struct {
	redis, mysql string
	pause        time.Duration
}

// The unique index on request is what no failure of Redis can undo: one row for one key.
const table = `CREATE TABLE IF NOT EXISTS orders (
	id BIGINT AUTO_INCREMENT PRIMARY KEY, request VARCHAR(64) NOT NULL UNIQUE,
	customer VARCHAR(100) NOT NULL, item VARCHAR(100) NOT NULL)`

type shop struct {
	db    *sql.DB
	pause time.Duration
}

func runShop(ctx context.Context, listen string, c config) error {
	db, err := sql.Open("mysql", c.mysql)
	if err != nil {
		return fmt.Errorf("open MySQL: %w", err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, table); err != nil {
		return fmt.Errorf("create the table of orders: %w", err)
	}
	options, err := redis.ParseURL(c.redis)
	if err != nil {
		return err
	}
	connection := redis.NewClient(options)
	defer func() { _ = connection.Close() }()
	client, err := goredisclient.New(connection)
	if err != nil {
		return err
	}
	store, err := redisstore.New(ctx, client, nil)
	if err != nil {
		return fmt.Errorf("open Redis: %w", err)
	}
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Secret: []byte(os.Getenv("RETRYSAFE_SECRET"))})
	gin.SetMode(gin.ReleaseMode)
	err = listenAndServe(ctx, listen, (&shop{db, c.pause}).newHandler(engine))
	return errors.Join(err, engine.Shutdown(context.WithoutCancel(ctx)))
}

func (s *shop) newHandler(engine *retrysafe.Engine) http.Handler {
	guarded := ginidem.Middleware(httpidem.New(engine, &httpidem.Options{
		Tenant: customerOf, Key: httpidem.Required,
		// After a crash the order is placed again: the unique index finds the row of the first try.
		Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute, Lease: 3 * time.Second, MaxRun: time.Minute},
	}))
	r := gin.New()
	r.Use(gin.Logger(), gin.Recovery())
	r.POST("/orders", guarded, s.placeOrder)
	r.GET("/orders", s.countOrders)
	return r
}

// customerOf keeps callers apart. Add your own login: this does not check the password.
func customerOf(r *http.Request) (string, error) {
	name, _, ok := r.BasicAuth()
	if !ok {
		return "", errors.New("a request without a user name")
	}
	return name, nil
}

type order struct {
	ID       int64  `json:"id"`
	Customer string `json:"customer"`
	Item     string `json:"item" binding:"required,max=100"`
}

func (s *shop) placeOrder(c *gin.Context) {
	var o order
	if err := c.ShouldBindJSON(&o); err != nil {
		c.JSON(http.StatusBadRequest, gin.H{"error": `send JSON like {"item":"tea"}`})
		return
	}
	o.Customer, _ = customerOf(c.Request)
	ctx := c.Request.Context()
	if err := s.insertOrder(ctx, &o); err != nil {
		log.Print("an order was not placed: ", err)
		c.JSON(http.StatusServiceUnavailable, gin.H{"error": "send it again with the same key"})
		return
	}
	select { // to be killed here, with the row written and no answer
	case <-time.After(s.pause):
	case <-ctx.Done():
	}
	c.JSON(http.StatusCreated, o)
}

// insertOrder inserts the row of a request, or reads the row that an earlier try inserted.
func (s *shop) insertOrder(ctx context.Context, o *order) error {
	attempt, ok := retrysafe.AttemptFrom(ctx)
	if !ok {
		return errors.New("the route is not guarded")
	}
	request, err := guard.Digest(attempt.Key())
	if err != nil {
		return err
	}
	res, err := s.db.ExecContext(ctx, "INSERT INTO orders (request, customer, item) VALUES (?, ?, ?)", request, o.Customer, o.Item)
	if _, exists := guard.DuplicateKey(err); exists {
		return s.db.QueryRowContext(ctx, "SELECT id, item FROM orders WHERE request = ?", request).Scan(&o.ID, &o.Item)
	}
	if err != nil {
		return err
	}
	o.ID, err = res.LastInsertId()
	return err
}

func (s *shop) countOrders(c *gin.Context) {
	var n int
	if err := s.db.QueryRowContext(c.Request.Context(), "SELECT COUNT(*) FROM orders").Scan(&n); err != nil {
		c.JSON(http.StatusServiceUnavailable, gin.H{"error": "the database does not answer"})
		return
	}
	c.JSON(http.StatusOK, gin.H{"orders": n})
}
