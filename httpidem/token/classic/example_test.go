package classic_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/token/classic"
	"github.com/retrysafe/retrysafe/redisclient"
)

// client is a connection to a server, from rueidisclient.Open or goredisclient.New.
var client redisclient.Client

func pay(context.Context) error { return nil }

// Delete the token first, then work.
func ExampleDeletion() {
	ctx := context.Background()
	tokens := classic.NewDeletion(client, nil)
	token, err := tokens.Issue(ctx, "ann") // with the form
	if err != nil {
		fmt.Println(err)
		return
	}
	err = tokens.Run(ctx, "ann", token, pay) // when the form comes back
	if errors.Is(err, retrysafe.ErrNotIssued) {
		fmt.Println("sent before, too old, or not ann's")
	}
}

// Count tells a duplicate from a token that was never issued.
func ExampleCount() {
	ctx := context.Background()
	tokens := classic.NewCount(client, nil)
	token, err := tokens.Issue(ctx, "ann")
	if err != nil {
		fmt.Println(err)
		return
	}
	switch err := tokens.Take(ctx, "ann", token); {
	case errors.Is(err, classic.ErrTaken):
		fmt.Println("a repeat")
	case errors.Is(err, retrysafe.ErrNotIssued):
		fmt.Println("an illegal request")
	case err == nil:
		fmt.Println(pay(ctx))
	}
}

// One at a time does not mean once.
func ExampleLock() {
	lock := classic.NewLock(client, nil)
	err := lock.Run(context.Background(), "account of ann", pay)
	if errors.Is(err, retrysafe.ErrInProgress) {
		fmt.Println("somebody else is at it")
	}
}
