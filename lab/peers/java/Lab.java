package lab;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;

// The JVM's contestant of the lab, a virtual thread per task: what all its programs share.
//
// The request comes as words, KEY=VALUE, and the answer goes out as one JSON object; what is wrong is said on standard error. As many carrier
// threads as workers: a property of the virtual machine, which who starts it sets. The machine translates a program while it runs, so what
// goes before the measured part is a second at least.

final class Lab {
    /** Nanoseconds that a program runs at least before it is measured. */
    static final long WARM = 1_000_000_000;

    private Lab() {}

    /** What is asked for. */
    record Request(Map<String, String> words) {
        long number(String name) { return Long.parseLong(words.get(name)); }
        int small(String name) { return Math.toIntExact(number(name)); }
        String word(String name) { return words.get(name); }
        boolean is(String name, String word) { return word.equals(words.get(name)); }

        Request with(String name, Object value) {
            Map<String, String> other = new HashMap<>(words);
            other.put(name, value.toString());
            return new Request(other);
        }
    }

    /** What was done, how long it took, and what else is told. */
    record Played(long operations, long nanos, Map<String, Double> measures) {
        /** With the time that each operation took, under that name. */
        static Played each(long operations, long nanos, String name) {
            Map<String, Double> measures = new TreeMap<>();
            measures.put(name, (double) nanos / operations);
            return new Played(operations, nanos, measures);
        }
    }

    interface Program { Played play(Request request) throws Exception; }

    /** A task with a result. Its fields are read after the thread's end, which `join` orders. */
    static final class Task<T> {
        private final Thread thread;
        private T result;

        Task(Callable<T> body) {
            thread = Thread.startVirtualThread(() -> {
                try {
                    result = body.call();
                } catch (Throwable error) {
                    fail("a task failed: " + error);
                }
            });
        }

        T join() throws InterruptedException {
            thread.join();
            return result;
        }
    }

    /** Something on lines of its own. */
    static class Padded { long p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, pa, pb, pc, pd, pe; }

    static void fail(String why) {
        System.err.println(why);
        Runtime.getRuntime().halt(1);
    }

    static void check(String what, Object found, Object expected) {
        if (!found.equals(expected)) fail(what + ": " + found + " counted, " + expected + " expected");
    }

    static void answer(Played played, Map<Long, Long> latencies) {
        StringBuilder json = new StringBuilder("{\"version\":\"java " + Runtime.version() + "\",\"operations\":" + played.operations + ",\"nanos\":" + played.nanos);
        json.append(",\"latencies\":").append(latencies.isEmpty() ? "null" : object(latencies));
        System.out.println(json.append(",\"measures\":").append(object(played.measures)).append('}'));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static String object(Map<?, ?> entries) {
        StringBuilder json = new StringBuilder();
        String between = "{";
        for (var entry : entries.entrySet()) {
            json.append(between).append('"').append(entry.getKey()).append("\":").append(entry.getValue());
            between = ",";
        }
        return json.append('}').toString();
    }

    /** Plays with less, until that has taken long enough; then in earnest. */
    private static void play(Program program, Request less, Request request) throws InterruptedException {
        // The program is a task as well: whoever waits for the others does it on a carrier, not on a thread beside them.
        Played played = new Task<>(() -> {
            long begun = System.nanoTime();
            do program.play(less); while (System.nanoTime() - begun < WARM);
            return program.play(request);
        }).join();
        answer(played, Map.of());
    }

    public static void main(String[] words) throws InterruptedException {
        Map<String, String> asked = new HashMap<>();
        for (String word : words) {
            String[] parts = word.split("=", 2);
            asked.put(parts[0], parts[1]);
        }
        // Who asked keeps the pipe open until it has its answer: if it ends, so do we.
        Thread.ofPlatform().daemon().start(() -> {
            try {
                System.in.transferTo(java.io.OutputStream.nullOutputStream());
            } catch (java.io.IOException error) {
                // A pipe that broke has ended as well.
            }
            Runtime.getRuntime().halt(3);
        });
        Request request = new Request(asked);
        Program program = Apps.program(request.word("kind"));
        if (program != null) play(program, Apps.less(request), request);
        Micro.run(request);
    }
}
