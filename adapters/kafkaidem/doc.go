// Package kafkaidem consumes messages of Kafka and publishes an outbox to it.
//
// [Create] creates a topic and the topic of its dead letters. [Open] returns a mqidem.Source on a
// consumer group, [OpenDeadLetters] its dead-letter queue, and [NewPublisher] an outbox.Publisher.
//
// Kafka stores one offset for a partition: all records before it are done. The source commits the
// offset of the first record that is not settled, and never a later one. So after a crash, records
// that were settled after that one are delivered again too. Unless [Options].Unordered is set, a
// partition has one message in work at a time, and a message that waits for a later try holds up
// its partition. The wait is local to the process: the next owner of the partition does not know of
// it.
//
// When a partition goes to another consumer, the source hands out nothing more of it, lets messages
// in work finish for [Options].Handover, and commits the offset. A message that has not finished by
// then is stale here, and is redelivered there.
//
// A topic cannot delete single records, only all before an offset. So if a walk of the dead letters
// removes one after it has kept another, it writes the kept ones from there on again at the end,
// and then deletes everything before them. If it is killed in between, a message is shown twice and
// none is lost. A walk that removes nothing writes nothing, and only needs the permission to read.
// A walk that removes messages needs the ACL Delete on the topic of dead letters. Do not run two
// walks of one dead-letter queue at once: both might write a kept message again.
//
// The tests run on Kafka, on one node and on three, and those that need no cluster on kfake too: a
// broker of franz-go that runs in the process of a test. It is quick, and differs from Kafka: it
// knows a new topic at once, its leaders do not change, no replica can be missing, and it neither
// compacts nor removes records by age.
package kafkaidem
