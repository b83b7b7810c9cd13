import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;

/** Sends one message of each compression. The arguments are the name server and the topic. */
public class Produce {
    public static void main(String[] args) {
        try {
            for (CompressionType type : CompressionType.values()) {
                send(args[0], args[1], type);
            }
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1); // the threads of a producer would keep the program running
        }
        System.exit(0);
    }

    static void send(String nameServer, String topic, CompressionType type) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("test-" + type);
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(type.name());
        producer.setMqClientApiTimeout(120_000);
        producer.setSendMsgTimeout(120_000);
        producer.setCompressMsgBodyOverHowmuch(100);
        producer.setCompressType(type);
        producer.start();
        Message message = new Message(topic, ("compressed by " + type + " ").repeat(1000).getBytes("UTF-8"));
        message.putUserProperty("compression", type.name());
        producer.send(message);
        producer.shutdown();
    }
}
