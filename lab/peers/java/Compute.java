package lab;

import static lab.Lab.check;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import lab.Lab.Played;
import lab.Lab.Request;
import lab.Lab.Task;

// The programs whose tasks only compute.

final class Compute {
    private Compute() {}

    /** After how many iterations a point is known not to belong to Mandelbrot's set, or the limit. */
    static char escape(int point, int side, int limit) {
        int row = point / side, column = point % side;
        // In half points from the middle: rows that mirror each other differ in the sign alone.
        double real = 1.5 * (2 * column + 1 - side) / side - 0.5;
        double imaginary = 1.5 * (side - 1 - 2 * row) / side;
        double x = 0, y = 0;
        for (int iteration = 0; iteration < limit; iteration++) {
            double xx = x * x, yy = y * y;
            if (xx + yy > 4) return (char) iteration;
            y = 2 * x * y + imaginary;
            x = xx - yy + real;
        }
        return (char) limit;
    }

    static Played mandelbrot(Request r) throws Exception {
        int side = r.small("n"), limit = r.small("iterations"), points = Math.multiplyExact(side, side);
        long parts = r.number("parts");
        char[] picture = new char[points];
        List<Task<?>> tasks = new ArrayList<>();
        long start = System.nanoTime();
        for (long part = 0; part < parts; part++) {
            int from = (int) (part * points / parts), to = (int) ((part + 1) * points / parts);
            tasks.add(new Task<>(() -> {
                for (int point = from; point < to; point++) picture[point] = escape(point, side, limit);
                return null;
            }));
        }
        for (var task : tasks) task.join();
        long elapsed = System.nanoTime() - start;
        long sum = 0;
        for (int point = 0; point < points; point++) {
            sum += picture[point];
            int mirrored = picture[(side - 1 - point / side) * side + point % side];
            check("iterations at a point and at its mirror image", (int) picture[point], mirrored);
        }
        for (int point = 0; point < points; point += (points + 999) / 1000) {
            check("iterations at a point", picture[point], escape(point, side, limit));
        }
        if (!r.is("out", "none")) Files.write(Path.of(r.word("out")), drawn(picture, side, limit));
        Played played = Played.each(points, elapsed, "ns_per_point");
        played.measures().put("iterations", (double) sum);
        return played;
    }

    /** The picture as PGM. */
    private static byte[] drawn(char[] picture, int side, int limit) {
        byte[] head = ("P5\n" + side + " " + side + "\n255\n").getBytes(StandardCharsets.US_ASCII);
        byte[] drawn = Arrays.copyOf(head, head.length + picture.length);
        for (int point = 0; point < picture.length; point++) {
            int halvings = Integer.SIZE - Integer.numberOfLeadingZeros(picture[point]);
            drawn[head.length + point] = (byte) (picture[point] == limit ? 0 : 255 - 14 * halvings);
        }
        return drawn;
    }

    private static double[] square(int side, int byRow, int byColumn) {
        double[] cells = new double[side * side];
        for (int at = 0; at < cells.length; at++) cells[at] = (at / side * byRow + at % side * byColumn) % 10;
        return cells;
    }

    /** The product of a matrix and a vector. */
    private static double[] times(double[] cells, double[] vector) {
        int side = vector.length;
        double[] product = new double[side];
        for (int at = 0; at < cells.length; at++) product[at / side] += cells[at] * vector[at % side];
        return product;
    }

    static Played matrix(Request r) throws Exception {
        int side = r.small("n"), tasks = r.small("tasks");
        double[] left = square(side, 7, 3), right = square(side, 1, 9), product = new double[side * side];
        List<Task<?>> parts = new ArrayList<>();
        long start = System.nanoTime();
        for (int part = 0; part < tasks; part++) {
            int from = part * side / tasks, to = (part + 1) * side / tasks;
            parts.add(new Task<>(() -> {
                for (int row = from; row < to; row++) rowTimes(left, row, right, side, product);
                return null;
            }));
        }
        for (var part : parts) part.join();
        long elapsed = System.nanoTime() - start;
        double[] vector = new double[side];
        for (int at = 0; at < side; at++) vector[at] = at % 13 + 1;
        double[] expected = times(left, times(right, vector)), found = times(product, vector);
        for (int row = 0; row < side; row++) check("the product of all and a vector, in row " + row, found[row], expected[row]);
        Played played = Played.each((long) side * side * side, elapsed, "ns_per_multiplication");
        played.measures().put("sum", Arrays.stream(product).sum());
        return played;
    }

    /** One row of the product. */
    private static void rowTimes(double[] left, int row, double[] right, int side, double[] product) {
        for (int column = 0; column < side; column++) {
            double sum = 0;
            for (int k = 0, at = column; k < side; k++, at += side) sum += left[row * side + k] * right[at];
            product[row * side + column] = sum;
        }
    }
}
