package demo

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"strings"
)

// stage has the processes and the store of a scene.
type stage struct {
	shop, gateway *process
	store         string // where the gateway keeps its records
	admin         string // address of the gateway's console; empty with the user's store
	usersStore    bool   // the user's store, which remains after the demonstration
	runID         string // a suffix of every key: the store may still have earlier runs
}

// runKey returns a client's key.
func (s *stage) runKey(name string) string { return name + "-" + s.runID }

func (s *stage) newClient(protected bool, user string) *client {
	if protected {
		return newClient(s.gateway.addr, user)
	}
	return newClient(s.shop.addr, user)
}

func (s *stage) sceneName(name string, protected bool) string { return sceneName(name, protected) }

// sceneName keeps the effects of the two sides apart.
func sceneName(name string, protected bool) string {
	if protected {
		return name + "-with"
	}
	return name + "-without"
}

// newStage makes a stage. The shop's file is dir/name-shop.db. The gateway's records are in
// dir/name.db if no store is given. how are options of the gateway.
func newStage(dir, name string, o *options, how ...string) (*stage, error) {
	addrs, err := freeAddrs(3)
	if err != nil {
		return nil, err
	}
	shop, gateway, console := addrs[0], addrs[1], addrs[2]
	store, stays := o.store, o.store != ""
	var before func(context.Context) error
	if stays {
		console = "" // it would show all that the store has
		before = func(ctx context.Context) error { return setTemporarySecret(ctx, o.open, store) }
	} else {
		store = "sqlite:" + filepath.Join(dir, name+".db")
	}
	return &stage{
		store: store, usersStore: stays, admin: console, runID: strings.ToLower(rand.Text()[:10]),
		shop: &process{
			name: "shop", addr: shop, readyText: "listening " + shop, log: newOutputTail(),
			args: []string{"demo-shop", "--listen", shop, "--db", filepath.Join(dir, name+"-shop.db")},
		},
		gateway: &process{
			name: "gateway", addr: gateway, readyText: "://" + gateway + " -> ", log: newOutputTail(), before: before,
			args: append([]string{
				"gateway", "--listen", gateway, "--upstream", "http://" + shop, "--store", store, "--namespace", namespace, "--admin", console,
			}, how...),
		},
	}, nil
}

// openStage makes a stage and starts it, on other ports if another program has taken one meanwhile.
func openStage(ctx context.Context, dir, name string, o *options, how ...string) (*stage, error) {
	for try := 1; ; try++ {
		s, err := newStage(dir, name, o, how...)
		if err != nil {
			return nil, err
		}
		if err = s.start(ctx); err == nil {
			return s, nil
		}
		s.kill()
		if !strings.Contains(err.Error(), "address already in use") || try == 5 {
			return nil, err
		}
	}
}

func (s *stage) start(ctx context.Context) error {
	for _, p := range []*process{s.shop, s.gateway} {
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) kill() {
	s.gateway.kill()
	s.shop.kill()
}
