// Provider plays Alipay, WeChat Pay and Stripe for the example callback: it makes their keys, signs
// notifications, and sends each several times.
//
//	go run ./examples/callback/provider -init
//	go run ./examples/callback/provider -order 17 -times 3
package main

import (
	"context"
	"flag"
	"log"
)

func main() {
	folder := flag.String("keys", "keys", "folder of the keys")
	create := flag.Bool("init", false, "make new keys, and send nothing")
	shop := flag.String("shop", "http://localhost:8080", "URL of the shop")
	order := flag.String("order", "17", "number of the order; each provider adds its first letter")
	times := flag.Int("times", 3, "how often each notification is sent")
	forge := flag.Bool("forge", false, "change the notifications after they are signed")
	flag.Parse()
	var err error
	if *create {
		err = makeKeys(*folder)
	} else {
		err = sendAll(context.Background(), *folder, *shop, *order, *times, *forge)
	}
	if err != nil {
		log.Fatal(err)
	}
}
