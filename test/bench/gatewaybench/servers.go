package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/internal/freeport"
)

// side is one gateway with its Redis.
type side struct {
	name           string
	addr           string
	gateway, redis *server
}

// server is a process and its workers.
type server struct{ cmd *exec.Cmd }

// processes has everything that runs.
type processes struct {
	dir         string
	workers     string
	connections string // of each worker of nginx
	servers     []*server
	sides       []*side
}

func startProcesses(workers, connections int, builds string) (*processes, error) {
	w := &processes{workers: strconv.Itoa(workers), connections: strconv.Itoa(connections)}
	var err error
	if w.dir, err = os.MkdirTemp("", "gatewaybench-"); err != nil {
		return nil, err
	}
	upstream, err := w.startNginx("upstream", upstreamConf)
	if err != nil {
		w.close()
		return nil, err
	}
	sides := []func(string) (*side, error){w.startAnchor, w.buildRetrysafe("retrysafe")}
	if builds != "" {
		sides = sides[:1]
		for build := range strings.SplitSeq(builds, ",") {
			name, path, _ := strings.Cut(build, "=")
			sides = append(sides, w.startBuilt(name, path))
		}
	}
	for _, start := range sides {
		s, err := start(upstream)
		if err != nil {
			w.close()
			return nil, err
		}
		w.sides = append(w.sides, s)
	}
	return w, nil
}

func (w *processes) close() {
	for _, s := range w.servers {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, s := range w.servers {
		_ = s.cmd.Wait()
	}
	_ = os.RemoveAll(w.dir)
}

// startServer starts a program and waits until it listens on addr.
func (w *processes) startServer(addr, program string, args ...string) (*server, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("%w; apt-get install -y redis-server nginx libnginx-mod-http-lua lua-nginx-redis", err)
	}
	s := &server{exec.Command(path, args...)} //nolint:noctx // close ends it
	s.cmd.Env = append(os.Environ(), "GOMAXPROCS="+w.workers, "RETRYSAFE_SECRET=a secret of the benchmark")
	log, err := os.Create(filepath.Join(w.dir, filepath.Base(program)+strconv.Itoa(len(w.servers))+".log"))
	if err != nil {
		return nil, err
	}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	w.servers = append(w.servers, s)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil { //nolint:noctx // on loopback
			return s, c.Close()
		}
	}
	said, _ := os.ReadFile(log.Name())
	return nil, fmt.Errorf("%s does not listen on %s:\n%s", program, addr, said)
}

func freeAddr() string {
	port, err := freeport.Get()
	if err != nil {
		return ""
	}
	return "127.0.0.1:" + port
}

func (w *processes) startRedis() (*server, string, error) {
	addr := freeAddr()
	_, port, _ := net.SplitHostPort(addr)
	dir, err := os.MkdirTemp(w.dir, "redis")
	if err != nil {
		return nil, "", err
	}
	s, err := w.startServer(addr, "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no")
	return s, addr, err
}

func (w *processes) startNginx(name, conf string, values ...string) (addr string, err error) {
	_, addr, err = w.startNginxServer(name, conf, values...)
	return addr, err
}

func (w *processes) startNginxServer(name, conf string, values ...string) (*server, string, error) {
	addr, dir := freeAddr(), filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o755); err != nil {
		return nil, "", err
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	text := strings.NewReplacer(append([]string{"$USER$", user, "$DIR$", dir, "$ADDR$", addr, "$WORKERS$", w.workers, "$CONNECTIONS$", w.connections}, values...)...).Replace(conf)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	s, err := w.startServer(addr, "nginx", "-p", dir, "-c", file, "-g", "daemon off;")
	return s, addr, err
}

func (w *processes) startAnchor(upstream string) (*side, error) {
	redis, redisAddr, err := w.startRedis()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(redisAddr)
	gateway, addr, err := w.startNginxServer("anchor", anchorConf, "$UPSTREAM$", upstream, "$REDIS_HOST$", host, "$REDIS_PORT$", port)
	return &side{"nginx", addr, gateway, redis}, err
}

// buildRetrysafe returns a function that builds our gateway and starts it with more lines of
// configuration.
func (w *processes) buildRetrysafe(name string) func(upstream string) (*side, error) {
	return func(upstream string) (*side, error) {
		binary := filepath.Join(w.dir, "retrysafe")
		build := exec.Command("go", "build", "-o", binary, ".") //nolint:noctx // it ends by itself
		build.Dir = filepath.Join(repositoryRoot(), "cmd", "retrysafe")
		if said, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go build: %w\n%s", err, said)
		}
		return w.startBuilt(name, binary)(upstream)
	}
}

// startBuilt returns a function that starts a gateway that was built before.
func (w *processes) startBuilt(name, binary string) func(upstream string) (*side, error) {
	return func(upstream string) (*side, error) {
		redis, redisAddr, err := w.startRedis()
		if err != nil {
			return nil, err
		}
		addr := freeAddr()
		file := filepath.Join(w.dir, "gateway-"+strconv.Itoa(len(w.servers))+".yaml")
		text := fmt.Sprintf("listen: %s\nupstream: http://%s\nnamespace: bench\nstore: redis://%s\n", addr, upstream, redisAddr)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
		gateway, err := w.startServer(addr, binary, "gateway", "--config", file)
		return &side{name, addr, gateway, redis}, err
	}
}

// repositoryRoot returns the top directory of the repository.
func repositoryRoot() string {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, missing := os.Stat(filepath.Join(dir, "cmd", "retrysafe", "go.mod")); missing == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "."
}

// cpuTime returns the CPU time of all threads of the process and its children, from the kernel's
// scheduler.
func (s *server) cpuTime() (time.Duration, error) {
	var sum time.Duration
	for _, pid := range s.processIDs() {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return 0, fmt.Errorf("processor time, which Linux alone tells: %w", err)
		}
		for _, task := range tasks {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, task.Name()))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return 0, err
			}
			var ns int64
			if _, err := fmt.Sscan(string(text), &ns); err != nil {
				return 0, err
			}
			sum += time.Duration(ns)
		}
	}
	return sum, nil
}

// processIDs returns the ids of the process and its children.
func (s *server) processIDs() []int {
	pids := []int{s.cmd.Process.Pid}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pids[0], pids[0]))
	for _, f := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(f); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
