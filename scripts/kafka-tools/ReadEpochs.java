// Prints a leader epoch checkpoint as Kafka's own class reads it: `java ReadEpochs.java <file>` with Kafka in CLASSPATH.
import java.io.File;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

public class ReadEpochs {
  public static void main(String[] args) throws Exception {
    LeaderEpochCheckpointFile file = new LeaderEpochCheckpointFile(new File(args[0]), new LogDirFailureChannel(1));
    file.read().forEach(entry -> System.out.println(entry.epoch + " " + entry.startOffset));
  }
}
