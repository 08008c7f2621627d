import java.util.function.LongUnaryOperator;

/** Small methods that a compiler puts into their callers. A remark `A > B` is where A calls B; there is no other place. */
public class Inlined {
    static volatile long sink;

    static long spin(long n) {
        long x = n;
        for (int i = 0; i < 20000; i++) x = x * 31 + (i ^ n);
        sink = x;
        return x;
    }

    static long three(long n) {
        long x = n + 3;
        return spin(x) + 1; // three > spin
    }

    static long two(long n) {
        return 2 +
            three(n); // two > three
    }

    static long one(long n) {
        return two(n) + 1; // one > two
    }

    static long chain(long n) {
        long x = n;
        x += one(x); // chain > one
        return x;
    }

    static long twice(long n) {
        long x = three(n); // twice > three
        x ^= n;
        return x + three(x); // twice > three
    }

    static long down(int n) {
        if (n == 0) return spin(n); // down > spin
        return down(n - 1) + 1; // down > down
    }

    static long recursion() {
        return down(20); // recursion > down
    }

    static void refuse(long n) {
        spin(n); // refuse > spin
        if (n >= 0) throw new IllegalArgumentException("no");
    }

    static long attempt(long n) {
        try {
            refuse(n); // attempt > refuse
        } catch (IllegalArgumentException e) {
            return two(n); // attempt > two
        }
        return n;
    }

    static long through(LongUnaryOperator f, long n) {
        return f.applyAsLong(n); // through > $$Lambda
    }

    static long lambda(long n) {
        return through(x -> spin(x), n); // lambda > through, lambda$lambda$0 > spin
    }

    interface Shape { long area(long n); }

    static class Circle implements Shape {
        public long area(long n) {
            return spin(3 * n); // Circle.area > spin
        }
    }

    static class Square implements Shape {
        public long area(long n) {
            long x = n * n;
            return spin(x); // Square.area > spin
        }
    }

    static long shapes() {
        Shape[] all = { new Circle(), new Square() }; // shapes > Circle.<init>, shapes > Square.<init>
        long a = 0;
        for (int i = 0; i < 4; i++) {
            a += all[i & 1].area(i); // shapes > Circle.area, shapes > Square.area
        }
        return a;
    }

    static long round(long x) {
        x += chain(x); // round > chain
        x += twice(x); // round > twice
        x += recursion(); // round > recursion
        x += attempt(x & 1023); // round > attempt
        x += lambda(x); // round > lambda
        return x + shapes(); // round > shapes
    }

    public static void main(String[] args) {
        long end = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9), x = 0;
        while (System.nanoTime() < end) {
            x += round(x); // main > round
        }
        System.out.println(x);
    }
}
