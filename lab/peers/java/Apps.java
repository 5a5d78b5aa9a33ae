package lab;

import static lab.Lab.check;
import static lab.Lab.fail;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.ReentrantLock;
import lab.Lab.Padded;
import lab.Lab.Played;
import lab.Lab.Program;
import lab.Lab.Request;
import lab.Lab.Task;

// The concurrent programs, a virtual thread per actor. Blocking queues are the mailboxes and the buffer. They cannot be closed: a last message,
// which says nothing else, stands for it.

final class Apps {
    private Apps() {}

    /** The program for a workload, if it is one of these. */
    static Program program(String kind) {
        return switch (kind) {
            case "token-ring" -> Apps::tokenRing;
            case "producer" -> Apps::producer;
            case "news" -> Apps::news;
            case "city" -> Apps::city;
            case "eratosthenes" -> Apps::eratosthenes;
            case "create" -> Apps::create;
            case "switch" -> Apps::switches;
            case "lock" -> Apps::lock;
            case "mandelbrot" -> Compute::mandelbrot;
            case "matrix" -> Compute::matrix;
            default -> null;
        };
    }

    /** The request with a tenth of the work; with few tasks for create, where memory is looked at. */
    static Request less(Request r) {
        String name = switch (r.word("kind")) {
            case "token-ring" -> "rounds";
            case "news" -> "messages";
            case "city" -> "units";
            case "mandelbrot" -> "iterations";
            default -> "n";
        };
        long number = r.number(name);
        Request less = r.with(name, switch (r.word("kind")) {
            case "create" -> Math.min(number, 1000);
            case "matrix" -> Math.max(number / 4, 1);
            default -> Math.max(number / 10, 1);
        });
        return less.words().containsKey("out") ? less.with("out", "none") : less;
    }

    static Played tokenRing(Request r) throws Exception {
        int n = r.small("n");
        long rounds = r.number("rounds");
        List<ArrayBlockingQueue<Long>> mailboxes = new ArrayList<>();
        for (int i = 0; i < n; i++) mailboxes.add(new ArrayBlockingQueue<>(1));
        record Seen(long turns, long wrong) {}
        List<Task<Seen>> players = new ArrayList<>(n);
        long start = System.nanoTime();
        for (int i = 0; i < n; i++) {
            int place = i;
            var from = mailboxes.get(i);
            var to = mailboxes.get((i + 1) % n);
            players.add(new Task<>(() -> {
                long turns = 0, wrong = 0;
                while (turns < rounds) {
                    long passes = from.take();
                    turns++;
                    if (passes % n != place) wrong++;
                    // The last player keeps it in the last round: nobody would take it.
                    if (passes + 1 < n * rounds) to.put(passes + 1);
                }
                return new Seen(turns, wrong);
            }));
        }
        mailboxes.get(0).put(0L);
        List<Seen> seen = new ArrayList<>(n);
        for (var player : players) seen.add(player.join());
        long elapsed = System.nanoTime() - start;
        for (Seen player : seen) check("turns of a player, and those that were not its own", player, new Seen(rounds, 0));
        return Played.each(n * rounds, elapsed, "ns_per_pass");
    }

    static Played producer(Request r) throws Exception {
        long n = r.number("n"), pairs = r.number("pairs");
        ArrayBlockingQueue<Long> buffer = new ArrayBlockingQueue<>(r.small("room"));
        record Consumed(long count, long sum) {}
        List<Task<?>> producers = new ArrayList<>();
        List<Task<Consumed>> consumers = new ArrayList<>();
        long start = System.nanoTime();
        for (long i = 0; i < pairs; i++) {
            long pair = i;
            producers.add(new Task<>(() -> {
                for (long unit = pair; unit < n; unit += pairs) buffer.put(unit);
                return null;
            }));
            consumers.add(new Task<>(() -> {
                long count = 0, sum = 0;
                for (long unit = pair; unit < n; unit += pairs) {
                    sum += buffer.take();
                    count++;
                }
                return new Consumed(count, sum);
            }));
        }
        for (var producer : producers) producer.join();
        long count = 0, sum = 0;
        for (var consumer : consumers) {
            Consumed consumed = consumer.join();
            count += consumed.count;
            sum += consumed.sum;
        }
        long elapsed = System.nanoTime() - start;
        check("units consumed, and their sum", new Consumed(count, sum), new Consumed(n, n * (n - 1) / 2));
        return Played.each(n, elapsed, "ns_per_unit");
    }

    /** A message: who wrote it, and which it is. */
    record Message(int reporter, int number) {}

    static Played news(Request r) throws Exception {
        int n = r.small("n"), reporters = r.small("reporters"), messages = r.small("messages"), room = r.small("room");
        List<ArrayBlockingQueue<Message>> mailboxes = new ArrayList<>();
        for (int i = 0; i < n; i++) mailboxes.add(new ArrayBlockingQueue<>(room));
        Message last = new Message(-1, 0);
        record Read(long messages, long misplaced) {}
        List<Task<Read>> customers = new ArrayList<>(n);
        List<Task<?>> publishing = new ArrayList<>();
        long start = System.nanoTime();
        for (var mailbox : mailboxes) {
            customers.add(new Task<>(() -> {
                int[] next = new int[reporters];
                long read = 0, misplaced = 0;
                for (Message message; (message = mailbox.take()) != last; ) {
                    read++;
                    if (message.number != next[message.reporter]) misplaced++;
                    next[message.reporter] = message.number + 1;
                }
                return new Read(read, misplaced);
            }));
        }
        for (int i = 0; i < reporters; i++) {
            int reporter = i;
            publishing.add(new Task<>(() -> {
                for (int number = 0; number < messages; number++) {
                    for (var mailbox : mailboxes) mailbox.put(new Message(reporter, number));
                }
                return null;
            }));
        }
        for (var reporter : publishing) reporter.join();
        for (var mailbox : mailboxes) mailbox.put(last);
        long read = 0, misplaced = 0;
        for (var customer : customers) {
            Read own = customer.join();
            read += own.messages;
            misplaced += own.misplaced;
        }
        long elapsed = System.nanoTime() - start, deliveries = (long) n * reporters * messages;
        check("messages read", new Read(read, misplaced), new Read(deliveries, 0));
        return Played.each(deliveries, elapsed, "ns_per_delivery");
    }

    /** A number under a lock: with nothing else on its lines, as far as the collector leaves it where it is. */
    static final class Counted extends Padded {
        final ReentrantLock lock = new ReentrantLock();
        long count;
        long q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, qa, qb, qc, qd, qe;

        void add() {
            lock.lock();
            try {
                count++;
            } finally {
                lock.unlock();
            }
        }
    }

    static Played city(Request r) throws Exception {
        long n = r.number("n"), units = r.number("units");
        Semaphore power = new Semaphore(0), room = new Semaphore(r.small("room"));
        Counted river = new Counted();
        List<Task<Long>> houses = new ArrayList<>();
        long start = System.nanoTime();
        Task<?> plant = new Task<>(() -> {
            for (long i = 0; i < n * units; i++) {
                room.acquire();
                river.add();
                power.release();
            }
            return null;
        });
        for (long i = 0; i < n; i++) {
            houses.add(new Task<>(() -> {
                long used = 0;
                for (; used < units; used++) {
                    power.acquire();
                    room.release();
                    river.add();
                }
                return used;
            }));
        }
        long used = 0;
        for (var house : houses) used += house.join();
        plant.join();
        long elapsed = System.nanoTime() - start;
        check("units of power", used, n * units);
        check("units of water", river.count, 2 * n * units);
        return Played.each(n * units, elapsed, "ns_per_unit");
    }

    static Played eratosthenes(Request r) throws Exception {
        int n = r.small("n"), room = r.small("room");
        int last = 0;
        List<Task<?>> sieves = new ArrayList<>();
        long start = System.nanoTime();
        ArrayBlockingQueue<Integer> first = new ArrayBlockingQueue<>(room), end = first;
        sieves.add(new Task<>(() -> {
            for (int number = 2; number <= n; number++) first.put(number);
            first.put(last);
            return null;
        }));
        long count = 0, sum = 0;
        for (int found; (found = end.take()) != last; ) {
            int prime = found;
            count++;
            sum += prime;
            ArrayBlockingQueue<Integer> from = end, to = new ArrayBlockingQueue<>(room);
            sieves.add(new Task<>(() -> {
                for (int number; (number = from.take()) != last; ) {
                    if (number % prime != 0) to.put(number);
                }
                to.put(last);
                return null;
            }));
            end = to;
        }
        for (var sieve : sieves) sieve.join();
        long elapsed = System.nanoTime() - start;
        boolean[] divided = new boolean[n + 1];
        long expected = 0, expectedSum = 0;
        for (int number = 2; number <= n; number++) {
            if (divided[number]) continue;
            expected++;
            expectedSum += number;
            for (long multiple = (long) number * number; multiple <= n; multiple += number) divided[(int) multiple] = true;
        }
        check("primes", count, expected);
        check("the sum of the primes", sum, expectedSum);
        return Played.each(n, elapsed, "ns_per_number");
    }

    static Played create(Request r) throws Exception {
        int n = r.small("n");
        long ended = 0, elapsed, bytes = -1;
        if (r.is("outstanding", "one")) {
            long start = System.nanoTime();
            for (int i = 0; i < n; i++) ended += new Task<>(() -> 1).join();
            elapsed = System.nanoTime() - start;
        } else {
            System.gc();
            long before = resident(), start = System.nanoTime();
            List<Task<Integer>> tasks = new ArrayList<>(n);
            for (int i = 0; i < n; i++) tasks.add(new Task<>(() -> 1));
            elapsed = System.nanoTime() - start;
            bytes = Math.max(resident() - before, 0);
            start = System.nanoTime();
            for (var task : tasks) ended += task.join();
            elapsed += System.nanoTime() - start;
        }
        check("tasks that ended", ended, (long) n);
        Played played = Played.each(n, elapsed, "ns_per_task");
        if (bytes >= 0) played.measures().put("bytes_per_task", (double) bytes / n);
        return played;
    }

    private static long resident() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS:")) return 1024 * Long.parseLong(line.replaceAll("\\D", ""));
        }
        fail("the memory of this process is unknown");
        return 0;
    }

    static Played switches(Request r) throws Exception {
        int tasks = r.small("tasks");
        long each = Math.max(r.number("n") / tasks, 1);
        List<Task<Long>> yielding = new ArrayList<>(tasks);
        long start = System.nanoTime();
        for (int i = 0; i < tasks; i++) {
            yielding.add(new Task<>(() -> {
                long yields = 0;
                for (; yields < each; yields++) Thread.yield();
                return yields;
            }));
        }
        long yields = 0;
        for (var task : yielding) yields += task.join();
        long elapsed = System.nanoTime() - start;
        check("yields", yields, tasks * each);
        return Played.each(tasks * each, elapsed, "ns_per_yield");
    }

    static Played lock(Request r) throws Exception {
        int tasks = r.small("tasks"), count = r.is("locks", "global") ? 1 : tasks;
        long each = Math.max(r.number("n") / tasks, 1);
        Counted[] locks = new Counted[count];
        for (int i = 0; i < count; i++) locks[i] = new Counted();
        List<Task<?>> locking = new ArrayList<>(tasks);
        long start = System.nanoTime();
        for (int i = 0; i < tasks; i++) {
            Counted own = locks[i % count];
            locking.add(new Task<>(() -> {
                for (long done = 0; done < each; done++) own.add();
                return null;
            }));
        }
        for (var task : locking) task.join();
        long elapsed = System.nanoTime() - start;
        for (Counted own : locks) check("operations under a lock", own.count, each * (tasks / count));
        return Played.each(tasks * each, elapsed, "ns_per_operation");
    }
}
