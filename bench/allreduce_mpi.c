/* allreduce_mpi.c - MPI_Allreduce of floats in place, timed as `weir bench allreduce` times: rounds
 * of some calls in a row, each round after a barrier; rank 0 prints the median as a JSON line for
 * each size.   mpirun -n P allreduce_mpi FLOATS... */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 21 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(float *x, size_t n)
{
    int rounds = n > 4 << 20 ? 7 : ROUNDS, calls = n <= 1 << 14 ? 100 : n <= 1 << 20 ? 10 : 1;
    double took[ROUNDS];

    for (int i = -1; i < rounds; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double t = MPI_Wtime();
        for (int k = 0; k < calls; k++)
            MPI_Allreduce(MPI_IN_PLACE, x, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (i >= 0)
            took[i] = (MPI_Wtime() - t) / calls;
    }
    qsort(took, (size_t)rounds, sizeof *took, by_value);
    return took[rounds / 2];
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; i < argc; i++) {
        size_t n = strtoull(argv[i], NULL, 10);
        float *x = malloc(n * sizeof *x);
        if (!x)
            MPI_Abort(MPI_COMM_WORLD, 1);
        for (size_t k = 0; k < n; k++)
            x[k] = (float)(k % 13);
        MPI_Allreduce(MPI_IN_PLACE, x, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (size_t k = 0; k < n; k++) {
            if (x[k] != (float)(k % 13) * (float)size)
                MPI_Abort(MPI_COMM_WORLD, 2);
            x[k] = 0; /* sums of nothing stay so, however often */
        }
        double s = median(x, n);
        if (!rank)
            printf("{\"peer\": \"openmpi\", \"ranks\": %d, \"floats\": %zu, \"us\": %.2f}\n", size,
                   n, s * 1e6);
        free(x);
    }
    MPI_Finalize();
    return 0;
}
