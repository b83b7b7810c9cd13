package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
)

const fiberConfiguration = "`app.Use(idempotency.New())`, records in memory"

// workTime is how long a payment takes.
const workTime = 15 * time.Millisecond

// startFiber starts the service with the idempotency middleware of fiber.
func startFiber(context.Context) (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var total atomic.Int64
	app := fiber.New()
	app.Get("/effects", func(c fiber.Ctx) error { return c.JSON(fiber.Map{"total": total.Load()}) })
	app.Use(func(c fiber.Ctx) error {
		if callers[c.Get("Authorization")] == "" {
			return fiber.NewError(http.StatusUnauthorized, "send your token in Authorization")
		}
		return c.Next()
	})
	app.Use(idempotency.New())
	act := func(c fiber.Ctx) error { return fiberPay(c, &total) }
	app.Post("/payments", act)
	app.Post("/refunds", act)
	go func() { _ = app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }()
	return &service{
		address: l.Addr().String(), version: "fiber " + fiber.Version + ", middleware/idempotency",
		configuration: fiberConfiguration, close: func() { _ = app.ShutdownWithTimeout(time.Second) },
	}, nil
}

func fiberPay(c fiber.Ctx, total *atomic.Int64) error {
	var order struct {
		Amount int64 `json:"amount"`
	}
	if err := c.Bind().JSON(&order); err != nil || order.Amount <= 0 {
		return fiber.NewError(http.StatusBadRequest, "the body is not {\"amount\": n}")
	}
	trouble, _ := strconv.Atoi(c.Get("X-Trouble"))
	if trouble/100 == 4 {
		return fiber.NewError(trouble, "refused")
	}
	<-time.After(workTime)
	if trouble != 0 {
		return fiber.NewError(trouble, "the bank does not answer")
	}
	id := fmt.Sprintf("%s_%d", strings.Trim(c.Path(), "/")[:3], total.Add(1))
	c.Set("Location", c.Path()+"/"+id)
	c.Set("ETag", `"`+id+`"`)
	c.Cookie(&fiber.Cookie{Name: "basket", Value: id})
	return c.Status(http.StatusCreated).JSON(fiber.Map{"id": id, "amount": order.Amount})
}
