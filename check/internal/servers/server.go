package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// Shop is a kind of server.
type Shop struct {
	// Name says what is special about it, in lower case with hyphens.
	Name string
	// open makes an empty disk. dir is an empty folder for its files.
	open func(dir string) (disk, error)
}

// disk is what a restart of a shop keeps.
type disk interface {
	// boot returns the handler of a new process on the disk.
	newHandler(p *process) (http.Handler, error)
	// total returns the number of payments and refunds.
	countEffects() (int64, error)
	Close() error
}

// Server is a shop that runs.
type Server struct {
	address string
	disk    disk

	mu      sync.Mutex
	current *process
}

// Start opens shop at address, a host and a port, with its files in dir. The caller closes it.
func Start(shop Shop, address, dir string) (*Server, error) {
	d, err := shop.open(dir)
	if err != nil {
		return nil, err
	}
	s := &Server{address: address, disk: d}
	if err := s.start(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return s, nil
}

// StartAnywhere is Start at a port of port, which other programs may take at the same time.
func StartAnywhere(shop Shop, dir string, port func() (string, error)) (s *Server, err error) {
	for range 10 {
		free, noPort := port()
		if noPort != nil {
			return nil, noPort
		}
		s, err = Start(shop, "127.0.0.1:"+free, dir)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return s, err
		}
	}
	return nil, err
}

// URL returns the address of path at the shop.
func (s *Server) URL(path string) string { return "http://" + s.address + path }

// Restart kills the shop's process and starts another one on the same disk. Requests that run are
// cut off, and do nothing any more.
func (s *Server) Restart(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.kill()
	return s.start()
}

// Close kills the process and removes what the shop has in memory.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.kill()
	return s.disk.Close()
}

func (s *Server) start() error {
	p := &process{}
	h, err := s.disk.newHandler(p)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("GET /effects", func(w http.ResponseWriter, _ *http.Request) {
		n, err := s.disk.countEffects()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, "{\"total\": %d}\n", n)
	})
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		return err
	}
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(l) }()
	s.current = p
	return nil
}

// process is the life of a shop between two restarts.
type process struct {
	server *http.Server

	mu     sync.RWMutex
	killed bool
	ends   []func()
}

var errKilled = errors.New("the process was killed")

// runUnlessKilled runs f, which has an effect. The error is errKilled, and f does not run, if the
// process was killed.
func (p *process) runUnlessKilled(f func() error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.killed {
		return errKilled
	}
	return f()
}

// kill ends the process: afterwards nothing that its goroutines do has an effect.
func (p *process) kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	_ = p.server.Close()
	for _, end := range p.ends {
		end()
	}
}
