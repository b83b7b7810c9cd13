package servertest

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// Kafka is a test's cluster of Kafka. Each node is a broker and a controller.
type Kafka struct {
	Nodes []*KafkaNode
}

// KafkaNode is a node of a cluster.
type KafkaNode struct {
	// Addr is host:port.
	Addr string

	cluster   *Kafka
	process   Process
	classPath string
	config    string
	paused    bool
}

// kafkaConfig has settings for tests: dead nodes and consumers are found within seconds, and the
// topics of the cluster itself are small.
const kafkaConfig = `
process.roles=broker,controller
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
auto.create.topics.enable=false
controlled.shutdown.enable=false
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
transaction.max.timeout.ms=3600000
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=100
group.consumer.min.session.timeout.ms=100
group.consumer.session.timeout.ms=6000
group.consumer.min.heartbeat.interval.ms=50
group.consumer.heartbeat.interval.ms=100
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms=3000
log.retention.check.interval.ms=500
log.cleaner.backoff.ms=500
log.cleaner.dedupe.buffer.size=2097152
log.initial.task.delay.ms=500
num.network.threads=1
num.io.threads=2
background.threads=2
`

// StartKafka runs a cluster until the test ends. config are lines of its configuration.
func StartKafka(tb testing.TB, nodes int, config ...string) *Kafka {
	tb.Helper()
	classPath := filepath.Join(Fetched(tb, "kafka"), "lib", "*")
	if log := "/usr/share/java/slf4j-simple.jar"; fileExists(log) {
		classPath += ":" + log // its log is shown if the test fails
	}
	k := new(Kafka)
	var ports, voters []string
	for i := range nodes {
		brokerPort, controllerPort := freePort(tb), freePort(tb)
		ports = append(ports, controllerPort)
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%s", i+1, controllerPort))
		k.Nodes = append(k.Nodes, &KafkaNode{Addr: "127.0.0.1:" + brokerPort, cluster: k, classPath: classPath})
	}
	replicas := min(nodes, 3)
	id := base64.RawURLEncoding.EncodeToString([]byte(rand.Text())[:16])
	formats := make([]Process, nodes)
	for i, n := range k.Nodes {
		dir := newFolder(tb)
		n.config = filepath.Join(dir, "server.properties")
		lines := append([]string{
			kafkaConfig, fmt.Sprint("node.id=", i+1), "controller.quorum.voters=" + strings.Join(voters, ","),
			"listeners=BROKER://" + n.Addr + ",CONTROLLER://127.0.0.1:" + ports[i], "advertised.listeners=BROKER://" + n.Addr, "log.dirs=" + dir + "/data",
			fmt.Sprint("default.replication.factor=", replicas), fmt.Sprint("offsets.topic.replication.factor=", replicas),
			fmt.Sprint("transaction.state.log.replication.factor=", replicas), fmt.Sprint("min.insync.replicas=", max(1, replicas-1)),
			fmt.Sprint("transaction.state.log.min.isr=", max(1, replicas-1)),
		}, config...)
		assert.NoError(tb, os.WriteFile(n.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600), "configuration")
		formats[i].Start(tb, n.command(tb, "kafka.tools.StorageTool", "format", "-t", id, "-c", n.config))
	}
	for i := range formats {
		<-formats[i].ended
		formats[i].Stop(tb, syscall.SIGKILL) // it must have succeeded
	}
	for _, n := range k.Nodes {
		tb.Cleanup(func() {
			n.Kill()
			if tb.Failed() {
				tb.Logf("Kafka on %s:\n%s", n.Addr, n.process.Output())
			}
		})
		n.start(tb)
	}
	for _, n := range k.Nodes {
		n.await(tb)
	}
	return k
}

// ListenAddrs returns the address of each node.
func (k *Kafka) ListenAddrs() (addrs []string) {
	for _, n := range k.Nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

func (n *KafkaNode) command(tb testing.TB, class string, args ...string) *exec.Cmd {
	tb.Helper()
	java := []string{"-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=64m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", n.classPath, class}
	c := exec.Command(Program(tb, "java", "default-jdk-headless"), append(java, args...)...)
	c.Dir = filepath.Dir(n.config)
	return c
}

func (n *KafkaNode) start(tb testing.TB) {
	tb.Helper()
	n.process.Start(tb, n.command(tb, "kafka.Kafka", n.config))
}

// await waits until the node counts every running node as a broker.
func (n *KafkaNode) await(tb testing.TB) {
	tb.Helper()
	n.process.Await(tb, "Kafka on "+n.Addr, func() bool {
		running := 0
		for _, each := range n.cluster.Nodes {
			if each.process.Running() && !each.paused {
				running++
			}
		}
		return countKafkaBrokers(n.Addr) >= running
	})
}

// Restart starts the node on its existing data, after Kill.
func (n *KafkaNode) Restart(tb testing.TB) {
	tb.Helper()
	n.start(tb)
	n.await(tb)
}

// Kill ends the node like a crash.
func (n *KafkaNode) Kill() {
	n.Resume()
	n.process.End(syscall.SIGKILL)
}

// Running reports whether the node was started and has not ended.
func (n *KafkaNode) Running() bool { return n.process.Running() }

// Pause stops the node without ending it: for the other nodes and for clients it no longer answers.
func (n *KafkaNode) Pause() {
	n.paused = true
	_ = syscall.Kill(n.process.Pid(), syscall.SIGSTOP)
}

// Resume continues after Pause.
func (n *KafkaNode) Resume() {
	if n.paused {
		_ = syscall.Kill(n.process.Pid(), syscall.SIGCONT)
		n.paused = false
	}
}

// countKafkaBrokers asks a node for the brokers that it knows of, and returns 0 if it does not
// answer. It speaks Metadata of version 12.
func countKafkaBrokers(addr string) int {
	answer, err := askFrame(addr, []byte{
		// the key, the version, a number, no name of a client
		0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 0,
		1, 0, 0, 0, // no topics, which are not created
	})
	const before = 9 // bytes: the number, no tags, the throttle time
	if err != nil || len(answer) <= before {
		return 0
	}
	return int(answer[before]) - 1 // one more than the brokers
}
