package servertest

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// RocketMQ is a test's name server and broker, with their own data.
type RocketMQ struct {
	// NameServer is the host:port of the name server, which tells clients the broker's address.
	NameServer string
	// Broker is the host:port of the broker.
	Broker string

	names, broker Process
	dir, jars     string
	java, library string
	boots         int
}

// loopbackSource is a library that turns the binding of a port on all addresses into one on
// loopback. The broker's port for its replicas has no setting for the address.
//
//go:embed servers/loopback.c
var loopbackSource string

// StartRocketMQ runs a name server and a broker until the test ends. config are lines of
// broker.conf; they replace those of the same name.
func StartRocketMQ(tb testing.TB, config ...string) *RocketMQ {
	tb.Helper()
	names, replicas := freePort(tb), freePort(tb)
	broker := freePorts(tb, 3)[2] // it takes the port two below it too
	r := &RocketMQ{
		NameServer: "127.0.0.1:" + names, Broker: "127.0.0.1:" + broker, dir: newFolder(tb),
		jars: filepath.Join(Fetched(tb, "rocketmq"), "lib", "*"), java: Program(tb, "java", "default-jdk-headless"),
	}
	r.library = loopbackLibrary(tb, r.dir)
	lines := append([]string{
		"brokerClusterName=retrysafe", "brokerName=broker", "brokerId=0", "brokerRole=ASYNC_MASTER", "flushDiskType=ASYNC_FLUSH",
		"namesrvAddr=" + r.NameServer, "brokerIP1=127.0.0.1", "bindAddress=127.0.0.1", "listenPort=" + broker, "haListenPort=" + replicas,
		"storePathRootDir=" + r.dir + "/store", "storePathCommitLog=" + r.dir + "/store/commitlog",
		"mappedFileSizeCommitLog=16777216", "mappedFileSizeConsumeQueue=300000", "maxIndexNum=50000", "maxHashSlotNum=10000",
		"timerWheelEnable=false", "diskMaxUsedSpaceRatio=98", "autoCreateTopicEnable=false",
		// A broker refuses what has waited for longer than this, which a busy machine can cause.
		"waitTimeMillsInSendQueue=60000", "waitTimeMillsInPullQueue=60000", "osPageCacheBusyTimeOutMills=60000",
		// One thread, so that a question about a group comes after the offsets sent before it.
		"consumerManageThreadPoolNums=1",
	}, config...)
	for name, text := range map[string]string{
		"broker.conf":  strings.Join(lines, "\n") + "\n",
		"namesrv.conf": fmt.Sprintf("listenPort=%s\nbindAddress=127.0.0.1\n", names),
	} {
		assert.NoError(tb, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600), "configuration")
	}
	tb.Cleanup(func() {
		r.Kill()
		r.names.End(syscall.SIGKILL)
	})
	r.names.Start(tb, r.program("NamesrvStartup", "org.apache.rocketmq.namesrv.NamesrvStartup", "64m", "namesrv.conf"))
	r.names.Await(tb, "RocketMQ's name server", func() bool { return strings.Contains(r.names.Output(), "boot success") && accepts(r.NameServer) })
	r.Restart(tb)
	return r
}

// program returns the command that runs a class of RocketMQ.
func (r *RocketMQ) program(name, class, memory, config string) *exec.Cmd {
	c := exec.Command(r.java, "-Xms32m", "-Xmx"+memory, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=256m",
		"-Djava.net.preferIPv4Stack=true", "-Duser.home="+r.dir, "-Djava.io.tmpdir="+r.dir, "-Dname="+name, "-cp", r.jars, class, "-c", filepath.Join(r.dir, config))
	c.Dir = r.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + r.dir, "ROCKETMQ_HOME=" + r.dir, "LD_PRELOAD=" + r.library}
	return c
}

// Command returns a command that runs a class of RocketMQ, or a file of Java that uses its client.
func (r *RocketMQ) Command(tb testing.TB, class string, args ...string) *exec.Cmd {
	tb.Helper()
	return exec.Command(r.java, append([]string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.home=" + r.dir, "-cp", r.jars, class}, args...)...)
}

// Restart starts the broker on its existing data, after Kill. It returns when the name server tells
// clients of the broker's topics.
func (r *RocketMQ) Restart(tb testing.TB) {
	tb.Helper()
	// If the name server still had the broker of before, it would drop the new one with it.
	r.names.Await(tb, "RocketMQ's name server", func() bool { return !r.knowsTopics() })
	r.boots++
	r.broker.Start(tb, r.program("BrokerStartup", "org.apache.rocketmq.broker.BrokerStartup", "256m", "broker.conf"))
	r.broker.Await(tb, "RocketMQ's broker", func() bool {
		return strings.Count(r.broker.Output(), "boot success") >= r.boots && accepts(r.Broker) && r.knowsTopics()
	})
}

// knowsTopics reports whether the name server knows the broker's topics. It asks for one that each
// broker has.
func (r *RocketMQ) knowsTopics() bool {
	// A frame has the length of its header and the header. 105 asks for the route of a topic.
	header := `{"code":105,"flag":0,"language":"GO","opaque":1,"version":0,"extFields":{"topic":"SELF_TEST_TOPIC"}}`
	answer, err := askFrame(r.NameServer, append(binary.BigEndian.AppendUint32(nil, uint32(len(header))), header...))
	return err == nil && strings.Contains(string(answer), r.Broker)
}

// Kill ends the broker like a crash.
func (r *RocketMQ) Kill() { r.broker.End(syscall.SIGKILL) }

// Pids returns the numbers of the processes.
func (r *RocketMQ) Pids() []int { return []int{r.names.Pid(), r.broker.Pid()} }

// loopbackLibrary compiles the library that keeps a program's ports on loopback.
func loopbackLibrary(tb testing.TB, dir string) string {
	tb.Helper()
	source, library := filepath.Join(dir, "loopback.c"), filepath.Join(dir, "loopback.so")
	assert.NoError(tb, os.WriteFile(source, []byte(loopbackSource), 0o600), "a file")
	said, err := exec.Command(Program(tb, "cc", "gcc"), "-shared", "-fPIC", "-o", library, source, "-ldl").CombinedOutput()
	assert.NoError(tb, err, "compile loopback.c: %s", said)
	return library
}

// accepts reports whether a server accepts a connection.
func accepts(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}
