/* The peers of `benches/ranks.rs`: plain MPI, with a loop of MPI_Test and with blocking calls.
 *
 *     mpicc -O2 -o plain plain.c && mpirun -n 2 plain
 */
#include <mpi.h>
#include <stdio.h>

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
    MPI_Finalize();
}
