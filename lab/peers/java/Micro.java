package lab;

// The micro-benchmarks.

import static lab.Lab.answer;
import static lab.Lab.fail;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntPredicate;
import lab.Lab.Padded;
import lab.Lab.Played;
import lab.Lab.Request;

final class Micro {
    static Request asked;
    static volatile boolean over;
    static Seat[] seats;
    static boolean clock;

    static int number(String name) { return asked.small(name); }
    static boolean is(String name, String word) { return asked.is(name, word); }

    static final class Seat extends Padded {
        volatile boolean unparked;
        volatile long seen;
        long turns, last, longest;
        int gift;
        Thread thread;
        long q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, qa, qb, qc, qd, qe;
        static final VarHandle TURNS, UNPARKED;
        static {
            try {
                TURNS = MethodHandles.lookup().findVarHandle(Seat.class, "turns", long.class);
                UNPARKED = MethodHandles.lookup().findVarHandle(Seat.class, "unparked", boolean.class);
            } catch (ReflectiveOperationException error) {
                throw new ExceptionInInitializerError(error);
            }
        }

        void park() {
            while (!(boolean) UNPARKED.getAcquire(this)) LockSupport.park();
            UNPARKED.setOpaque(this, false);
        }

        /**
         * Where a permit of an earlier wake-up was not taken, `LockSupport.unpark` only reads that it is there. A mark that is not volatile could become
         * visible after that read, the thread take the old permit, see no mark, and park for ever.
         */
        void unpark() {
            UNPARKED.setVolatile(this, true);
            LockSupport.unpark(thread);
        }

        void turn() {
            TURNS.setOpaque(this, turns + 1);
            if (clock) {
                long now = System.nanoTime();
                longest = Math.max(longest, now - last);
                last = now;
            }
        }
    }

    static final class Spot extends Padded {
        final AtomicInteger name = new AtomicInteger();
    }

    interface Task { void run(int number, Seat own) throws InterruptedException; }

    /** Starts a task in each seat; returns when all sit. */
    static CountDownLatch start(int count, Task task) throws InterruptedException {
        seats = new Seat[count];
        CountDownLatch ready = new CountDownLatch(count), done = new CountDownLatch(count);
        for (int i = 0; i < count; i++) seats[i] = new Seat();
        for (int i = 0; i < count; i++) {
            int number = i;
            seats[i].thread = Thread.ofVirtual().unstarted(() -> {
                Seat own = seats[number];
                ready.countDown();
                own.park();
                try {
                    task.run(number, own);
                } catch (InterruptedException error) {
                    fail("a task was interrupted");
                }
                done.countDown();
            });
        }
        for (Seat seat : seats) seat.thread.start();
        ready.await();
        return done;
    }

    static long[] look() {
        long[] turns = new long[seats.length];
        for (int i = 0; i < turns.length; i++) turns[i] = (long) Seat.TURNS.getOpaque(seats[i]);
        return turns;
    }

    /** Counts turns for a time; `together` neighbours are served together. */
    static void count(int tasks, int together, IntPredicate first, Task task, Runnable check) throws InterruptedException {
        CountDownLatch done = start(tasks, task);
        long begun = System.nanoTime();
        for (Seat seat : seats) seat.last = begun;
        for (int i = 0; i < tasks; i++) if (first.test(i)) seats[i].unpark();
        long length = number("ms");
        Thread.sleep(Math.max(length / 8, Lab.WARM / 1_000_000));
        long[] before = look();
        long start = System.nanoTime();
        Thread.sleep(length);
        long elapsed = System.nanoTime() - start;
        long[] after = look();
        long longest = 0, end = System.nanoTime();
        for (Seat seat : seats) longest = Math.max(longest, Math.max(seat.longest, end - seat.last));
        over = true;
        done.await();
        check.run();
        long all = 0, least = Long.MAX_VALUE;
        for (int at = 0; at < tasks; at += together) {
            long served = 0;
            for (int i = at; i < at + together; i++) served += after[i] - before[i];
            all += served;
            least = Math.min(least, served);
        }
        double mean = (double) all / (tasks / together);
        Map<String, Double> measures = new TreeMap<>();
        measures.put("least", least / Math.max(mean, 1));
        measures.put("workers_over_throughput_ns", (double) elapsed * number("workers") / Math.max(all, 1));
        if (clock) measures.put("longest_wait_us", longest / 1e3);
        answer(new Played(all, elapsed, measures), Map.of());
    }

    static void cycle() throws InterruptedException {
        int ring = number("ring"), tasks = number("rings") * number("workers") * ring;
        count(tasks, ring, i -> i % ring == 0, (i, own) -> {
            Seat next = seats[i - i % ring + (i + 1) % ring];
            while (!over) {
                own.turn();
                next.unpark();
                own.park();
            }
            next.unpark();
        }, () -> {
            for (int at = 0; at < tasks; at += ring) {
                for (int i = at + 1; i < at + ring; i++) {
                    if (seats[i - 1].turns < seats[i].turns || seats[at].turns > seats[i].turns + 1) fail("a hop of a ring was lost or doubled");
                }
            }
        });
    }

    static void yielding() throws InterruptedException {
        count(number("tasks") * number("workers"), 1, i -> true, (i, own) -> {
            while (!over) {
                own.turn();
                Thread.yield();
            }
        }, () -> {});
    }

    static int spots(int tasks) { return number("spots") == 0 ? tasks / 2 : number("spots"); }

    static Spot[] places(int count) {
        Spot[] places = new Spot[count];
        for (int i = 0; i < count; i++) places[i] = new Spot();
        return places;
    }

    static void pushOut(Spot[] places, int spot, int own, int gift) {
        int found = places[spot].name.getAndSet(own + 1);
        if (found != 0) {
            seats[found - 1].gift = gift;
            seats[found - 1].unpark();
        }
    }

    static void clear(Spot[] places) {
        for (Spot place : places) {
            int found = place.name.getAndSet(0);
            if (found != 0) seats[found - 1].unpark();
        }
    }

    static void churn() throws InterruptedException {
        int tasks = number("tasks") * number("workers"), count = spots(tasks);
        if (is("form", "sem")) {
            Semaphore[] semaphores = new Semaphore[count];
            for (int i = 0; i < count; i++) semaphores[i] = new Semaphore(0);
            count(tasks, 1, i -> true, (i, own) -> {
                SplittableRandom random = new SplittableRandom(i);
                while (!over) {
                    Semaphore semaphore = semaphores[random.nextInt(count)];
                    semaphore.release();
                    semaphore.acquire();
                    own.turn();
                }
                for (Semaphore semaphore : semaphores) semaphore.release();
            }, () -> {});
            return;
        }
        Spot[] places = places(count);
        count(tasks, 1, i -> true, (i, own) -> {
            SplittableRandom random = new SplittableRandom(i);
            while (!over) {
                own.turn();
                pushOut(places, random.nextInt(count), i, 0);
                if (over) clear(places);
                own.park();
            }
            clear(places);
        }, () -> {
            for (Spot place : places) if (place.name.get() != 0) fail("a name was left in the spots");
        });
    }

    static void locality() throws InterruptedException {
        int tasks = number("tasks") * number("workers"), count = spots(tasks), cells = number("cells"), touched = number("touched");
        boolean shared = is("array", "share");
        Spot[] places = places(count);
        long[][] arrays = new long[tasks][cells];
        count(tasks, 1, i -> true, (i, own) -> {
            SplittableRandom random = new SplittableRandom(i);
            int held = i;
            while (!over) {
                long[] array = arrays[held];
                for (int t = 0; t < touched; t++) array[random.nextInt(cells)]++;
                own.turn();
                pushOut(places, random.nextInt(count), i, held);
                if (over) clear(places);
                own.park();
                if (shared) held = own.gift;
            }
            clear(places);
        }, () -> {
            long sum = 0, turns = 0;
            for (int i = 0; i < tasks; i++) {
                turns += seats[i].turns;
                for (long cell : arrays[i]) sum += cell;
            }
            if (sum != turns * touched) fail("counts in the arrays: " + sum + " counted, " + turns * touched + " expected");
        });
    }

    /** Term and leader in one word; 0 says that it is over. What only leaders touch needs no more order than that. */
    static final class Stage extends Padded {
        final AtomicLong word = new AtomicLong(1L << 32), acknowledged = new AtomicLong();
        final SplittableRandom random = new SplittableRandom(0x7a57);
        final Map<Long, Long> latencies = new TreeMap<>();
        long began, ended, from, terms, counted;
    }

    static void transfer() throws InterruptedException {
        int tasks = number("tasks") * number("workers");
        boolean parks = is("others", "park"), itself = is("elects", "any");
        long longest = number("longest") * 1_000_000L, length = number("ms") * 1_000_000L;
        Stage stage = new Stage();
        CountDownLatch done = start(tasks, (i, own) -> {
            long seen = 0, saw = 0, word;
            while ((word = stage.word.get()) != 0) {
                long term = word >>> 32;
                if (word == (term << 32 | i)) {
                    lead(stage, i, term, itself, longest, length);
                    if (parks) for (int other = 0; other < tasks; other++) if (other != i) seats[other].unpark();
                    continue;
                }
                if (seen != term) {
                    seen = term;
                    saw++;
                    own.seen = term;
                }
                if (parks) own.park(); else Thread.yield();
            }
            stage.acknowledged.addAndGet(saw);
        });
        stage.began = stage.ended = System.nanoTime();
        for (Seat seat : seats) seat.unpark();
        done.await();
        long expected = stage.terms * (tasks - 1);
        if (stage.acknowledged.get() != expected) fail("times that somebody saw a leader: " + stage.acknowledged + " counted, " + expected + " expected");
        long elapsed = stage.ended - stage.from;
        answer(new Played(stage.counted, elapsed, Map.of("us_per_leadership", elapsed / 1e3 / stage.counted)), stage.latencies);
    }

    static void lead(Stage stage, int own, long term, boolean itself, long longest, long length) {
        long start = System.nanoTime();
        for (int other = 0; other < seats.length; other++) {
            for (int looks = 1; other != own && seats[other].seen != term; looks++) {
                Thread.onSpinWait();
                if (looks % 1024 == 0 && System.nanoTime() - start > longest) {
                    fail("a leadership took more than " + longest / 1_000_000 + " ms, after " + stage.terms + " that were completed");
                }
            }
        }
        long now = System.nanoTime(), took = now - stage.ended, next = 0;
        stage.ended = now;
        stage.terms++;
        boolean last = false;
        if (stage.from != 0) {
            stage.latencies.merge(took, 1L, Long::sum);
            stage.counted++;
            last = now - stage.from >= length;
        } else if (now - stage.began >= Math.max(length / 8, Lab.WARM)) {
            stage.from = now;
        }
        if (!last) {
            int elected = itself ? stage.random.nextInt(seats.length) : (own + 1 + stage.random.nextInt(seats.length - 1)) % seats.length;
            next = (term + 1) << 32 | elected;
        }
        stage.word.set(next);
    }

    static void run(Request request) throws InterruptedException {
        asked = request;
        clock = is("clock", "on");
        switch (request.word("kind")) {
            case "cycle" -> cycle();
            case "yield" -> yielding();
            case "churn" -> churn();
            case "locality" -> locality();
            case "transfer" -> transfer();
            default -> fail("there is no workload " + request.word("kind") + " here");
        }
    }
}
