// Package rocketmqidem consumes messages of RocketMQ and publishes an outbox to it.
//
// [Create] creates a topic, the topic of its later tries and the topic of its dead letters. [Open]
// returns a mqidem.Source on a consumer group, [OpenDeadLetters] its dead-letter queue, and
// [NewPublisher] an outbox.Publisher.
//
// RocketMQ stores one offset for a queue of a topic: all messages before it are done. The source
// commits the offset of the first message that is not settled, and never a later one. So after a
// crash, messages that were settled after that one are delivered again too.
//
// A later try is a copy in the group's topic of later tries, which the broker delivers after one of
// its levels of delay. The broker confirms the copy before the message is settled, so that the
// queue goes on, and the wait outlives the process. The level is the smallest that is long enough:
// by default 1 s, 5 s, 10 s, 30 s, 1 to 10 minutes, 20 and 30 minutes, 1 and 2 hours. If
// [Options].Ordered is set, a queue has one message in work at a time, and a message that waits for
// a later try holds up its queue. That wait is local to the process.
//
// The client gives queues to the consumers of a group without asking the one that had them before.
// So when a consumer comes or goes, messages in work are delivered to a second consumer too, and
// the first one's delivery becomes stale. The records of mqidem.Once and mqidem.OnceTx are what
// keeps their work from being done twice.
//
// A dead letter is a message that the source writes itself to the group's topic of dead letters,
// since the broker's own transfer has no room for a reason. RocketMQ cannot delete single messages.
// So a walk keeps its place in a group of its own: see [DeadLetters.Walk]. Dead letters expire with
// the broker's files (fileReservedTime, 72 hours by default), like all messages.
//
// The package uses the client that speaks to name servers and brokers directly (port 9876), and
// needs no proxy. That client cannot tell when a broker has died while it waits for messages of it:
// after a crash of a broker, a queue can stand still for up to 30 s. Its settings for TLS are those
// of the whole process.
package rocketmqidem
