/** Virtual threads that have given up their carrier: when they run again, most of their frames are in the heap. */
public class Virtual {
    static volatile long sink;

    static long spin(long n) {
        long x = n;
        for (int i = 0; i < 50_000_000; i++) x = x * 31 + i;
        sink = x;
        return x;
    }

    static long deep(int n) {
        if (n > 0) return deep(n - 1) + 1;
        Thread.yield();
        return spin(n);
    }

    public static void main(String[] args) throws InterruptedException {
        long end = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        while (System.nanoTime() < end) Thread.ofVirtual().start(() -> deep(20)).join();
    }
}
