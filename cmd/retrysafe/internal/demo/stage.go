package demo

import (
	"context"
	"path/filepath"
)

// stage is what the scenes play on.
type stage struct {
	shop, gateway *process
}

func (s *stage) client(protected bool, user string) *client {
	if protected {
		return newClient(s.gateway.addr, user)
	}
	return newClient(s.shop.addr, user)
}

func (s *stage) scene(name string, protected bool) string { return sceneName(name, protected) }

// sceneName tells what happened on one side from what happened on the other.
func sceneName(name string, protected bool) string {
	if protected {
		return name + "-with"
	}
	return name + "-without"
}

// build makes a stage whose files are dir/name.db and dir/name-shop.db; how are options of its gateway.
func build(dir, name string, how ...string) (*stage, error) {
	addrs, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	shop, gateway := addrs[0], addrs[1]
	return &stage{
		shop: &process{
			name: "shop", addr: shop, log: newTail(),
			args: []string{"demo-shop", "--listen", shop, "--db", filepath.Join(dir, name+"-shop.db")},
		},
		gateway: &process{
			name: "gateway", addr: gateway, log: newTail(),
			args: append([]string{
				"gateway", "--listen", gateway, "--upstream", "http://" + shop, "--store", "sqlite:" + filepath.Join(dir, name+".db"),
			}, how...),
		},
	}, nil
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
