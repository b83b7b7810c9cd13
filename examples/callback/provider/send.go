package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// sendAll sends the notification of each provider, and prints the answers.
func sendAll(ctx context.Context, folder, shop, order string, times int, forge bool) error {
	for path, make := range map[string]func(folder, order string) (body string, h http.Header, err error){
		"/notify/alipay": alipayNotification, "/notify/wechatpay": wechatPay, "/webhooks/stripe": stripeNotification,
	} {
		for range times {
			body, h, err := make(folder, order)
			if err != nil {
				return err
			}
			if forge {
				body = strings.Replace(body, "notify-", "notify-other-", 1)
			}
			if err := postNotification(ctx, shop+path, body, h); err != nil {
				return err
			}
		}
	}
	return nil
}

// postNotification sends a notification, and prints the answer.
func postNotification(ctx context.Context, url, body string, h http.Header) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = h
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fmt.Printf("%s: %s %s\n", url, resp.Status, text)
	return err
}
