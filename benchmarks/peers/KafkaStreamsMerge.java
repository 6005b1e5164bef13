import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.message.BinaryMessageDecoder;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** Merge by key and field, tell what is new. The record key is topic and key of the message, so a partition has all of an event. */
public final class KafkaStreamsMerge {
    static final Duration WINDOW = Duration.ofSeconds(60);
    static final ObjectMapper JSON = new ObjectMapper();

    /** What is known of one event, and since when. */
    record Known(long since, Map<String, Object> fields) {
        static Known read(byte[] bytes) throws Exception {
            return JSON.readValue(bytes, Known.class);
        }
    }

    static final class Merge implements ProcessorSupplier<byte[], byte[], byte[], byte[]> {
        final StoreBuilder<KeyValueStore<byte[], byte[]>> store =
                Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("known"), Serdes.ByteArray(), Serdes.ByteArray()).withCachingEnabled();
        final Schema schema;

        Merge(Schema schema) {
            this.schema = schema;
        }

        @Override
        public Set<StoreBuilder<?>> stores() {
            return Set.of(store);
        }

        @Override
        public Processor<byte[], byte[], byte[], byte[]> get() {
            var decoder = new BinaryMessageDecoder<GenericRecord>(GenericData.get(), schema);
            return new Processor<>() {
                ProcessorContext<byte[], byte[]> context;
                KeyValueStore<byte[], byte[]> known;

                @Override
                public void init(ProcessorContext<byte[], byte[]> context) {
                    this.context = context;
                    known = context.getStateStore("known");
                    context.schedule(WINDOW, PunctuationType.STREAM_TIME, this::forget);
                }

                @Override
                public void process(Record<byte[], byte[]> record) {
                    try {
                        var message = decoder.decode(record.value());
                        byte[] stored = known.get(record.key());
                        var event = stored == null ? null : Known.read(stored);
                        if (event == null || record.timestamp() - event.since >= WINDOW.toMillis()) {
                            event = new Known(record.timestamp(), new LinkedHashMap<>());
                        }
                        var news = new LinkedHashMap<String, Object>();
                        for (var field : ((Map<?, ?>) message.get("fields")).entrySet()) {
                            var name = field.getKey().toString();
                            var value = field.getValue() instanceof CharSequence text ? text.toString() : field.getValue();
                            if (event.fields.putIfAbsent(name, value) == null) {
                                news.put(name, value);
                            }
                        }
                        if (!news.isEmpty()) {
                            known.put(record.key(), JSON.writeValueAsBytes(event));
                            var told = Map.of("topic", message.get("topic").toString(), "key", message.get("key").toString(), "news", news);
                            context.forward(record.withValue(JSON.writeValueAsBytes(told)));
                        }
                    } catch (Exception error) {
                        throw new IllegalStateException(error);
                    }
                }

                private void forget(long now) {
                    try (var all = known.all()) {
                        while (all.hasNext()) {
                            var entry = all.next();
                            if (now - Known.read(entry.value).since >= WINDOW.toMillis()) {
                                known.delete(entry.key);
                            }
                        }
                    } catch (Exception error) {
                        throw new IllegalStateException(error);
                    }
                }
            };
        }
    }

    public static void main(String[] args) throws Exception {
        var env = System.getenv();
        var schema = new Schema.Parser().parse(Files.readString(Path.of(env.get("SCHEMA"))));
        var settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, env.get("GROUP"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, env.get("BOOTSTRAP"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, env.get("STATE_DIR"));
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64 << 20);
        settings.put(StreamsConfig.producerPrefix("linger.ms"), 5);
        settings.put(StreamsConfig.producerPrefix("batch.size"), 256 << 10);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        var builder = new StreamsBuilder();
        builder.stream(List.of(env.get("TOPICS").split(",")), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                .process(new Merge(schema))
                .to(env.get("OUTPUT"), Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        var streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
