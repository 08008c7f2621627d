import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;

/** Each function has one caller, and each recursion a known depth. */
public class Known {
    static volatile long sink;

    static long bottom(int n) {
        long x = 1;
        for (int i = 0; i < 20000; i++) x = x * 31 + (i ^ n);
        sink = x;
        return x;
    }

    static long rec(int n) { return n == 0 ? bottom(n) : rec(n - 1) + 1; }

    static long recA(int n) { return n == 0 ? bottom(n) : recB(n - 1) + 1; }

    static long recB(int n) { return n == 0 ? bottom(n) : recA(n - 1) + 1; }

    static long phaseRec() { return rec(40); }

    static long phaseAB() { return recA(60); }

    interface Shape { double area(); }

    static class Circle implements Shape {
        public double area() { double a = 0; for (int i = 0; i < 5000; i++) a += Math.sqrt(i); return a; }
    }

    static class Square implements Shape {
        public double area() { double a = 0; for (int i = 0; i < 5000; i++) a += 3 * i; return a; }
    }

    static long phaseVirtual() {
        Shape[] all = { new Circle(), new Square() };
        double a = 0;
        for (int i = 0; i < 40; i++) a += all[i & 1].area();
        return (long) a;
    }

    static int compare(Integer x, Integer y) { return Integer.compare(x, y); }

    static long phaseSort() {
        Integer[] a = new Integer[3000];
        Random random = new Random(1);
        for (int i = 0; i < a.length; i++) a[i] = random.nextInt();
        Arrays.sort(a, Known::compare);
        return a[0];
    }

    static long phaseMap() {
        Map<String, Integer> m = new HashMap<>();
        for (int i = 0; i < 2000; i++) m.merge("k" + i % 97, 1, Integer::sum);
        return m.size();
    }

    public static void main(String[] args) {
        long end = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9), x = 0;
        while (System.nanoTime() < end) x += phaseRec() + phaseAB() + phaseVirtual() + phaseSort() + phaseMap();
        System.out.println(x);
    }
}
