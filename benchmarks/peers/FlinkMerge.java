import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.message.BinaryMessageDecoder;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Merge by key and field, tell what is new. Values travel as JSON literals, which Flink can serialise without Kryo. */
public final class FlinkMerge {
    static final ObjectMapper JSON = new ObjectMapper();

    static final class Reports implements DeserializationSchema<Tuple3<String, String, Map<String, String>>> {
        final String schema;
        transient BinaryMessageDecoder<GenericRecord> decoder;

        Reports(String schema) {
            this.schema = schema;
        }

        @Override
        public void open(InitializationContext context) {
            decoder = new BinaryMessageDecoder<>(GenericData.get(), new Schema.Parser().parse(schema));
        }

        @Override
        public Tuple3<String, String, Map<String, String>> deserialize(byte[] bytes) throws IOException {
            var message = decoder.decode(bytes);
            var fields = new LinkedHashMap<String, String>();
            for (var field : ((Map<?, ?>) message.get("fields")).entrySet()) {
                var value = field.getValue() instanceof CharSequence text ? text.toString() : field.getValue();
                fields.put(field.getKey().toString(), JSON.writeValueAsString(value));
            }
            return Tuple3.of(message.get("topic").toString(), message.get("key").toString(), fields);
        }

        @Override
        public boolean isEndOfStream(Tuple3<String, String, Map<String, String>> next) {
            return false;
        }

        @Override
        public TypeInformation<Tuple3<String, String, Map<String, String>>> getProducedType() {
            return Types.TUPLE(Types.STRING, Types.STRING, Types.MAP(Types.STRING, Types.STRING));
        }
    }

    static final class Merge extends KeyedProcessFunction<String, Tuple3<String, String, Map<String, String>>, String> {
        transient MapState<String, String> known;

        @Override
        public void open(OpenContext context) {
            var descriptor = new MapStateDescriptor<>("known", Types.STRING, Types.STRING);
            descriptor.enableTimeToLive(StateTtlConfig.newBuilder(Duration.ofSeconds(60)).build());
            known = getRuntimeContext().getMapState(descriptor);
        }

        @Override
        public void processElement(Tuple3<String, String, Map<String, String>> report, Context context, Collector<String> out) throws Exception {
            var news = new StringBuilder();
            for (var field : report.f2.entrySet()) {
                if (!known.contains(field.getKey())) {
                    known.put(field.getKey(), field.getValue());
                    news.append(news.isEmpty() ? "" : ",").append(JSON.writeValueAsString(field.getKey())).append(":").append(field.getValue());
                }
            }
            if (!news.isEmpty()) {
                var topic = JSON.writeValueAsString(report.f0);
                out.collect("{\"topic\":" + topic + ",\"key\":" + JSON.writeValueAsString(report.f1) + ",\"news\":{" + news + "}}");
            }
        }
    }

    public static void main(String[] args) throws Exception {
        var environ = System.getenv();
        var settings = new Configuration();
        settings.setString("parallelism.default", "2");
        settings.setString("pipeline.object-reuse", "true");
        settings.setString("execution.buffer-timeout.interval", "5 ms");
        settings.setString("execution.checkpointing.interval", "10 s");
        settings.setString("execution.checkpointing.dir", Path.of(environ.get("STATE_DIR")).toUri().toString());
        settings.setString("state.backend.type", environ.get("STATE"));
        settings.setString("execution.checkpointing.incremental", "true");
        settings.setString("taskmanager.memory.managed.size", "256 mb");
        var env = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        var source = KafkaSource.<Tuple3<String, String, Map<String, String>>>builder()
                .setBootstrapServers(environ.get("BOOTSTRAP"))
                .setTopics(environ.get("TOPICS").split(","))
                .setGroupId(environ.get("GROUP"))
                .setStartingOffsets(OffsetsInitializer.earliest())
                // A consumer with an idle partition beside a busy one asks for the idle one and waits; half a second by default.
                .setProperty("fetch.max.wait.ms", "10")
                .setValueOnlyDeserializer(new Reports(Files.readString(Path.of(environ.get("SCHEMA")))))
                .build();
        var sink = KafkaSink.<String>builder()
                .setBootstrapServers(environ.get("BOOTSTRAP"))
                .setProperty("linger.ms", "5")
                .setProperty("batch.size", "262144")
                .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder().setTopic(environ.get("OUTPUT")).setValueSerializationSchema(new SimpleStringSchema()).build())
                .build();
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "reports")
                .keyBy(report -> report.f0 + "/" + report.f1)
                .process(new Merge())
                .sinkTo(sink);
        env.execute("merge");
    }
}
