/* The peers of `benches/ranks`: plain MPI, with a loop of MPI_Test and with blocking calls.
 *
 *     mpicc -O2 -o plain plain.c && mpirun -n 2 plain
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void finish(MPI_Request *request)
{
    int done = 0;
    while (!done) MPI_Test(request, &done, MPI_STATUS_IGNORE);
}

static double ping_pong(int rank, int rounds, int blocking)
{
    char bytes[8] = {0};
    MPI_Request sent, received;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        for (int turn = 0; turn < 2; turn++) {
            if (turn == rank) {
                if (blocking) {
                    MPI_Send(bytes, 8, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
                } else {
                    MPI_Isend(bytes, 8, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &sent);
                    finish(&sent);
                }
            } else if (blocking) {
                MPI_Recv(bytes, 8, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Irecv(bytes, 8, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &received);
                finish(&received);
            }
        }
    }
    return (MPI_Wtime() - begin) / rounds * 1e6;
}

/* As `stencil.rs`: rows are divided among the ranks; here the borders travel first, and then all is computed. */
static void stencil(int rank, int size, int width, int steps)
{
    int first = (int)((long)width * rank / size), rows = (int)((long)width * (rank + 1) / size) - first;
    size_t cells = (size_t)(rows + 2) * width;
    double *own = calloc(cells, sizeof *own), *next = calloc(cells, sizeof *next);
    if (!own || !next) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int row = 0; row < rows; row++)
        for (int column = 1; column < width - 1; column++)
            own[(size_t)(row + 1) * width + column] = ((first + row) * 31 + column * 17) % 101;
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        double *above = own, *below = own + (size_t)(rows + 1) * width;
        MPI_Sendrecv(own + width, width, MPI_DOUBLE, up, 1, below, width, MPI_DOUBLE, down, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(own + (size_t)rows * width, width, MPI_DOUBLE, down, 2, above, width, MPI_DOUBLE, up, 2,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int row = 1; row <= rows; row++) {
            const double *restrict at = own + (size_t)row * width;
            double *restrict to = next + (size_t)row * width;
            for (int column = 1; column < width - 1; column++)
                to[column] = 0.25 * (at[column - width] + at[column + width] + at[column - 1] + at[column + 1]);
        }
        double *swap = own;
        own = next;
        next = swap;
    }
    uint64_t sum = 0, all;
    for (size_t cell = width; cell < (size_t)(rows + 1) * width; cell++) {
        uint64_t bits;
        memcpy(&bits, own + cell, 8);
        sum += bits;
    }
    MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    double ms = (MPI_Wtime() - begin) * 1e3 / steps;
    if (rank == 0)
        printf("stencil %d x %d, %d ranks, plain MPI: %.3f ms a step, checksum %016llx\n", width, width, size, ms,
               (unsigned long long)all);
    free(own);
    free(next);
}

int main(int argc, char **argv)
{
    int level, rank, size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size >= 2 && rank < 2) {
        for (int blocking = 0; blocking < 2; blocking++) {
            ping_pong(rank, 1000, blocking);
            double us = ping_pong(rank, 20000, blocking);
            if (rank == 0) printf("ping-pong, plain MPI, %s: %.2f us a round trip\n", blocking ? "blocking" : "MPI_Test", us);
        }
    }
    for (int round = 0; round < 3; round++) stencil(rank, size, 2048, 100);
    MPI_Finalize();
}
